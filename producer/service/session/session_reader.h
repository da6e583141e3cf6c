// SPDX-License-Identifier: Apache-2.0
//
// One read-out of a session, packet by packet: the service's own packets, then the buffers in their
// order, then the statistics. The caller (a file, a connection) may stop between any two packets
// and continue later.
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
    // Appends the packets that follow the buffers.
    void (*put_tail)(void *userdata, struct packet_list *list);
    void *userdata;
    // Not NULL: reading removes nothing from the buffers, and each read-out continues where the
    // last read-out ended. Owned, n_buffers of them.
    struct packet_cursor *cursors;
    struct packet_cursor next; // after the present packet

    enum {
        SESSION_READER_IDLE,
        SESSION_READER_HEAD,
        SESSION_READER_BUFFERS,
        SESSION_READER_TAIL,
    } phase;
    struct packet_list list;
    size_t buffer;       // number of the present buffer
    uint64_t bytes_left; // bytes left to read from the buffer in this read-out
    bool from_buffer;    // the present packet is from a buffer and must be consumed
    size_t size;         // of the present packet
};

// Begins a read-out. An unfinished read-out begins again, and keeps its packets of the service.
void session_reader_begin(struct session_reader *reader);

static inline bool session_reader_active(const struct session_reader *reader)
{
    return reader->phase != SESSION_READER_IDLE;
}

// session_reader_peek() sets *ret to the present packet, or returns false at the end of the
// read-out. The view stays valid until the next write into the session. session_reader_advance()
// goes on to the next packet, and must be called before the next write.
bool session_reader_peek(struct session_reader *reader, struct packet_view *ret);
void session_reader_advance(struct session_reader *reader);

// Resets the read-out and the cursors: the next read-out starts from the beginning.
void session_reader_reset(struct session_reader *reader);

void session_reader_done(struct session_reader *reader);
