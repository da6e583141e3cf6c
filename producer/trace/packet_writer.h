// SPDX-License-Identifier: Apache-2.0
//
// Writes one packet sequence of a source: opens a packet in the session's buffer, returns the wire
// writer, and closes the packet.
//
//     struct wire_writer *w = packet_writer_begin_message(writer, nsec_now(CLOCK_BOOTTIME), 4096,
//                                                         PB_TracePacket_sys_stats);
//     if (!w)
//         return;                                       // refused and counted; not an error
//     ...
//     packet_writer_end(writer);
//
// The writer adds the timestamp and trusted_packet_sequence_id to every packet. It adds
// first_packet_on_sequence, previous_packet_dropped and sequence_flags where they belong.
// trusted_uid and trusted_pid are in the first packet of a sequence, and in packets that clear the
// incremental state.
//
// The packet that clears the incremental state has no other content. The packet is kept beside a
// ring for as long as the ring lives, because readers would not accept any later packet without it.
//
// After a loss, readers ignore the packets of an incremental sequence until its state is cleared. A
// source that uses packet_writer_clear_state() must check `dropped`, and call
// packet_writer_clear_state() again if it is set.
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
    uint32_t uid; // of this process
    int32_t pid;
    bool incremental;         // packets need the incremental state of the sequence: interned data
    bool clear_pending;       // the next packet comes after a packet that clears the state
    bool first_written;       // first_packet_on_sequence was written
    bool dropped;             // a packet was dropped since the last written packet
    bool open;                // between begin and end
    uint64_t packets, bytes;  // written so far
    uint64_t packets_dropped; // refused, or larger than their room
    struct wire_writer wire;  // of the open packet
    size_t message;           // mark of the packet's message; 0: none
};

// Sequence ids are unique in a session; 1 is the service's own.
struct packet_writer packet_writer_over(struct packet_buffer *buffer, uint32_t sequence_id);

// Opens a packet with room for at least `min` bytes of payload, and up to `want` if the buffer has
// the room. `timestamp` is in ns of CLOCK_BOOTTIME; 0 leaves the field out. Returns NULL, with no
// packet open, if the buffer refuses.
struct wire_writer *packet_writer_begin_range(struct packet_writer *writer, nsec_t timestamp,
                                              size_t min, size_t want);

// As packet_writer_begin_range(), with `min` and `want` equal to `room`.
struct wire_writer *packet_writer_begin(struct packet_writer *writer, nsec_t timestamp,
                                        size_t room);

// As packet_writer_begin(), and begins the message `field` of TracePacket. The message ends with
// the packet.
struct wire_writer *packet_writer_begin_message(struct packet_writer *writer, nsec_t timestamp,
                                                size_t room, uint32_t field);

// Closes the packet. Returns false, and drops and counts the packet, if it overflowed its room.
bool packet_writer_end(struct packet_writer *writer);

// Closes a packet that has `n_events` events, which are counted if the packet is lost.
bool packet_writer_end_events(struct packet_writer *writer, uint64_t n_events);

// Closes a packet with a rule for the ring (packet_buffer.h). The source chooses the keys;
// UINT64_MAX is reserved.
bool packet_writer_end_retained(struct packet_writer *writer, enum packet_retain retain,
                                uint64_t key);

void packet_writer_cancel(struct packet_writer *writer);

// Puts a packet with SEQ_INCREMENTAL_STATE_CLEARED before the next packet: readers drop the ids and
// interned data of this sequence. All packets after it have SEQ_NEEDS_INCREMENTAL_STATE.
void packet_writer_clear_state(struct packet_writer *writer);
