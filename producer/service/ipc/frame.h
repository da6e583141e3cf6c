// SPDX-License-Identifier: Apache-2.0
//
// Perfetto's framing on a stream socket: four bytes of length, little-endian, then an IPCFrame.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protos/ipc/ipc_frame.pb-c.h"

#define IPC_FRAME_MAX    ((size_t)128 << 10) // bytes, with the length in front
#define IPC_FRAME_HEADER ((size_t)4)

// What comes in. All zero is empty; holds memory only while there is something in it.
struct ipc_inbox {
    uint8_t *bytes; // owned
    size_t start, end, capacity;
};

// Where to receive the next bytes. 0, -ENOMEM, or -ENOBUFS: whole frames have to be taken out
// first. What ipc_inbox_next() gave is gone after this.
int ipc_inbox_room(struct ipc_inbox *inbox, uint8_t **ret, size_t *ret_size);
void ipc_inbox_received(struct ipc_inbox *inbox, size_t size);

// Takes out the next whole frame that is not empty. 1: *ret (borrowed) is its message; 0: not all
// of it is there yet; -EMSGSIZE: it is longer than IPC_FRAME_MAX, nothing more can be read.
int ipc_inbox_next(struct ipc_inbox *inbox, const uint8_t **ret, size_t *ret_size);

// Part of a frame is there, or whole ones that were not taken out.
static inline bool ipc_inbox_pending(const struct ipc_inbox *inbox)
{
    return inbox->end > inbox->start;
}

void ipc_inbox_done(struct ipc_inbox *inbox);

// What goes out. All zero is empty; holds memory only while there is something in it.
struct ipc_outbox {
    uint8_t *bytes; // owned
    size_t start, end, capacity;
};

// Appends a frame. 0; -EMSGSIZE: longer than IPC_FRAME_MAX; -ENOMEM.
int ipc_outbox_add(struct ipc_outbox *outbox, const Pb__IPCFrame *frame);

static inline size_t ipc_outbox_size(const struct ipc_outbox *outbox)
{
    return outbox->end - outbox->start;
}

// Sends what the socket takes without waiting; `passed_fd` (borrowed, -1: none) goes along with the
// first byte. Bytes sent, or a negative errno (-EAGAIN: it takes nothing).
int64_t ipc_outbox_send(struct ipc_outbox *outbox, int fd, int passed_fd);

void ipc_outbox_done(struct ipc_outbox *outbox);
