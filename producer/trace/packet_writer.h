// SPDX-License-Identifier: Apache-2.0
//
// One packet sequence of a source: opens a packet in the session's buffer, hands out the wire
// writer, closes it.
//
//     struct wire_writer *w = packet_writer_begin(writer, nsec_now(CLOCK_BOOTTIME), 4096);
//     if (!w)
//         return;                                       // refused and counted; not an error
//     size_t mark = wire_begin(w, PB_TracePacket_sys_stats);
//     ...
//     wire_end(w, mark);
//     packet_writer_end(writer);
//
// The writer adds trusted_packet_sequence_id, timestamp and, where they belong,
// first_packet_on_sequence, previous_packet_dropped, sequence_flags, trusted_uid and trusted_pid.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/nsec.h"
#include "common/wire.h"
#include "producer/trace/packet_buffer.h"

struct packet_writer {
    struct packet_buffer *buffer; // borrowed
    uint32_t sequence_id;
    bool
        incremental; // packets need the state that the sequence built up (interned data, keyed ids)
    bool first_written;       // first_packet_on_sequence has been sent
    bool dropped;             // something was refused since the last packet
    uint64_t packets, bytes;  // written so far
    uint64_t packets_dropped; // refused, or cut because they outgrew their room
    struct wire_writer wire;  // of the open packet
    bool open;
};

// Sequence ids are unique in a session; 1 is the service's own.
struct packet_writer packet_writer_over(struct packet_buffer *buffer, uint32_t sequence_id);

// Opens a packet with room for at least `min` bytes of payload, up to `want` if the buffer has
// them. `timestamp` is boot time; 0 leaves it out. NULL if the buffer refuses; nothing is open
// then.
struct wire_writer *packet_writer_begin_range(struct packet_writer *writer, nsec_t timestamp,
                                              size_t min, size_t want);

// As above with min = want = `room`.
struct wire_writer *packet_writer_begin(struct packet_writer *writer, nsec_t timestamp,
                                        size_t room);

// Closes the packet. One that overflowed its room is dropped and counted; false then.
bool packet_writer_end(struct packet_writer *writer);

// As packet_writer_end(), with a rule for what outlives the ring (packet_buffer.h).
bool packet_writer_end_retained(struct packet_writer *writer, enum packet_retain retain,
                                uint64_t key);

void packet_writer_cancel(struct packet_writer *writer);

// The next packet says SEQ_INCREMENTAL_STATE_CLEARED: readers forget ids and interned data of this
// sequence, and later packets say SEQ_NEEDS_INCREMENTAL_STATE.
void packet_writer_clear_state(struct packet_writer *writer);
