// SPDX-License-Identifier: Apache-2.0
//
// One read-out of a session, packet by packet: the service's own packets first, then the buffers in
// their order, then the statistics. Whoever reads (a file, a connection) stops where it likes
// between two packets and goes on later.
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
    // Appends what comes behind the buffers.
    void (*put_tail)(void *userdata, struct packet_list *list);
    void *userdata;
    // Not NULL: reading takes nothing out of the buffers, and each read-out goes on where the last
    // one ended. Owned, n_buffers of them.
    struct packet_cursor *cursors;
    struct packet_cursor next; // behind the packet at hand

    enum {
        SESSION_READER_IDLE,
        SESSION_READER_HEAD,
        SESSION_READER_BUFFERS,
        SESSION_READER_TAIL,
    } phase;
    struct packet_list list;
    size_t buffer;       // that is being read
    uint64_t bytes_left; // to read of it in this read-out
    bool from_buffer;    // the packet at hand is the buffer's, still to be consumed
    size_t size;         // of the packet at hand
};

// Begins a read-out; one that is under way begins again, and what the service had at hand for it is
// not lost.
void session_reader_begin(struct session_reader *reader);

static inline bool session_reader_active(const struct session_reader *reader)
{
    return reader->phase != SESSION_READER_IDLE;
}

// The packet at hand; false at the end of the read-out, which then is over. The view stays valid
// until anything is written into the session. session_reader_advance() passes over the packet; it
// has to come before anything else writes.
bool session_reader_peek(struct session_reader *reader, struct packet_view *ret);
void session_reader_advance(struct session_reader *reader);

// The next read-out begins anew, and so do cursors.
void session_reader_reset(struct session_reader *reader);

void session_reader_done(struct session_reader *reader);
