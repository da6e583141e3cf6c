// SPDX-License-Identifier: Apache-2.0
//
// One read-out of a session, packet by packet: the service's own packets, then the buffers in their
// order, then the statistics. The caller (a file, a connection) may stop between any two packets
// and go on later.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/service/service_packets.h"
#include "producer/trace/packet_buffer.h"

struct session_reader {
    struct service_packets *packets; // borrowed
    struct packet_buffer **buffers;  // borrowed, n_buffers of them
    size_t n_buffers;
    // Appends the packets that belong behind the buffers.
    void (*put_tail)(void *userdata, struct packet_list *list);
    void *userdata;
    // Not NULL: reading removes nothing from the buffers, and each read-out continues where the
    // last one ended. Owned, n_buffers of them.
    struct packet_cursor *cursors;
    struct packet_cursor next; // behind the present packet

    enum {
        SESSION_READER_IDLE,
        SESSION_READER_HEAD,
        SESSION_READER_BUFFERS,
        SESSION_READER_TAIL,
    } phase;
    struct packet_list list;
    size_t buffer;       // being read
    uint64_t bytes_left; // left to read of the buffer in this read-out
    bool from_buffer;    // the present packet is the buffer's and must still be consumed
    size_t size;         // of the present packet
};

// Begins a read-out. An unfinished read-out begins again, without loss of the service's packets for
// it.
void session_reader_begin(struct session_reader *reader);

static inline bool session_reader_active(const struct session_reader *reader)
{
    return reader->phase != SESSION_READER_IDLE;
}

// session_reader_peek() returns the present packet, or false at the end, where the read-out is
// over. The view stays valid until something is written into the session. session_reader_advance()
// passes over the packet. Call it before anything else writes.
bool session_reader_peek(struct session_reader *reader, struct packet_view *ret);
void session_reader_advance(struct session_reader *reader);

// The next read-out starts anew; cursors are reset too.
void session_reader_reset(struct session_reader *reader);

void session_reader_done(struct session_reader *reader);
