// SPDX-License-Identifier: Apache-2.0
//
// Perfetto's framing on a stream socket: a length of four bytes, little-endian, then an IPCFrame.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protos/ipc/ipc_frame.pb-c.h"

#define IPC_FRAME_MAX    ((size_t)128 << 10) // bytes, including the length
#define IPC_FRAME_HEADER ((size_t)4)

static inline Pb__IPCFrame ipc_frame(uint64_t request_id, Pb__IPCFrame__MsgCase msg_case)
{
    Pb__IPCFrame frame = PB__IPCFRAME__INIT;
    frame.has_request_id = true;
    frame.request_id = request_id;
    frame.msg_case = msg_case;
    return frame;
}

// Received bytes. All zero is empty. An empty inbox holds no memory.
struct ipc_inbox {
    uint8_t *bytes; // owned
    size_t start, end, capacity;
};

// Sets *ret to the room for the next bytes. Returns 0; -ENOMEM; or -ENOBUFS if whole frames must be
// taken out first. Invalidates the message of ipc_inbox_next().
int ipc_inbox_room(struct ipc_inbox *inbox, uint8_t **ret, size_t *ret_size);
void ipc_inbox_received(struct ipc_inbox *inbox, size_t size);

// Takes out the next whole frame that is not empty. Returns 1 with its message in *ret (borrowed);
// 0 if the frame is incomplete; or -EMSGSIZE if the frame is longer than IPC_FRAME_MAX: then
// nothing more can be read.
int ipc_inbox_next(struct ipc_inbox *inbox, const uint8_t **ret, size_t *ret_size);

// Returns whether the inbox has part of a frame, or whole frames that were not taken out.
static inline bool ipc_inbox_pending(const struct ipc_inbox *inbox)
{
    return inbox->end > inbox->start;
}

void ipc_inbox_done(struct ipc_inbox *inbox);

// Bytes to send. All zero is empty. An empty outbox holds no memory.
struct ipc_outbox {
    uint8_t *bytes; // owned
    size_t start, end, capacity;
};

// Appends a frame. Returns 0; -EMSGSIZE if the frame is longer than IPC_FRAME_MAX; or -ENOMEM.
int ipc_outbox_add(struct ipc_outbox *outbox, const Pb__IPCFrame *frame);

static inline size_t ipc_outbox_size(const struct ipc_outbox *outbox)
{
    return outbox->end - outbox->start;
}

// Sends as much as the socket takes without waiting. `passed_fd` (borrowed; -1: none) goes with the
// first byte. Returns the bytes sent or a negative errno: -EAGAIN if the socket takes nothing.
int64_t ipc_outbox_send(struct ipc_outbox *outbox, int fd, int passed_fd);

void ipc_outbox_done(struct ipc_outbox *outbox);
