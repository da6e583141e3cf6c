// SPDX-License-Identifier: Apache-2.0
//
// Where packets wait for the file: one block of memory per buffer of the config, RING_BUFFER or
// DISCARD. Sources encode straight into it (reserve, write, commit). Nothing is copied until the
// packet goes to the file.
//
// A ring drops its oldest packets. Some packets must survive that, because later packets refer to
// them: process names, track descriptors, complete residency lists. Their writer gives them a key
// and a `packet_retain` rule. When the ring passes over such a packet, the packet moves to a store
// beside the ring. A reader of the buffer gets the store's packets first. So a wrapped ring still
// explains every packet in it.
//
// A ring may keep its beginning, too (packet_buffer_new_both_ends): the first packets stay and the
// newest stay. Packets that a flood pushes out between them are counted as lost.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum packet_buffer_policy {
    PACKET_BUFFER_RING,    // keeps the newest data
    PACKET_BUFFER_DISCARD, // keeps the oldest data: once a packet does not fit, no more packets are
                           // taken
};

// What happens to a packet when a ring passes over it. Keys belong to the writer; each sequence has
// its own keys.
enum packet_retain {
    PACKET_PLAIN,          // dropped
    PACKET_RETAIN_REPLACE, // kept; replaces everything kept under this key
    PACKET_RETAIN_APPEND,  // kept behind everything kept under this key
    PACKET_RETAIN_FORGET,  // dropped, with everything kept under this key
    PACKET_RETAIN_ALWAYS,  // as REPLACE, and never displaced by others; for one small packet per
                           // sequence
};

struct packet_meta {
    uint32_t sequence_id;
    enum packet_retain retain;
    uint64_t key;      // of `retain`; ignored for PACKET_PLAIN
    uint64_t n_events; // of PACKET_PLAIN: events to count if the packet is lost
};

// Counted since the buffer was made. TraceStats.BufferStats is made from it.
struct packet_buffer_stats {
    uint64_t size_bytes;
    uint64_t packets_written, bytes_written;
    uint64_t packets_overwritten,
        bytes_overwritten;      // by the ring; those that were retained do not count
    uint64_t packets_discarded; // refused: DISCARD and full, or larger than the buffer
    // Packets, and events in them, that were overwritten between the two ends of a ring that keeps
    // both ends. A ring that keeps only its newest data has lost nothing.
    uint64_t packets_lost, events_lost;
    bool full; // DISCARD: no more packets are taken
    uint64_t packets_read, bytes_read;
    uint64_t wraps; // how often writing restarted at the beginning while there were unread data
    uint64_t retained_packets, retained_bytes; // presently beside the ring
    uint64_t retained_dropped;                 // lost because the store was at its limit
};

struct packet_buffer;

// Makes a buffer of `size_bytes`, at least 4096, rounded up to pages, which are touched only as it
// fills. The retained store may grow to a quarter of the size, or to 1 MiB if that is more.
int packet_buffer_new(size_t size_bytes, enum packet_buffer_policy policy,
                      struct packet_buffer **ret, struct err *err);
// Makes a ring of `size_bytes` that keeps its first packets in `first_bytes` of them. The ring
// proper begins when these are full. Both sizes are at least 4096. A buffer that was read to its
// end begins anew.
int packet_buffer_new_both_ends(size_t size_bytes, size_t first_bytes, struct packet_buffer **ret,
                                struct err *err);
struct packet_buffer *packet_buffer_free(struct packet_buffer *buffer);

// Returns how many bytes all writers together may retain beside a ring. UINT64_MAX: the buffer
// drops nothing.
uint64_t packet_buffer_retainable_bytes(const struct packet_buffer *buffer);

// Sets a function that is called for each PACKET_PLAIN that a buffer with two kept ends is about to
// lose. `data` and `size` are the packet's. The function must not write into the buffer.
typedef void packet_buffer_lost_fn(void *userdata, uint32_t sequence_id, const uint8_t *data,
                                   size_t size);
void packet_buffer_on_lost(struct packet_buffer *buffer, packet_buffer_lost_fn *fn, void *userdata);

// `n_events` of the lost events have been written again.
void packet_buffer_unlose(struct packet_buffer *buffer, uint64_t n_events);

// Takes up to `most` bytes of the buffer's memory from the kernel now, beginning with those that
// are written first. Returns their number. No effect if the kernel cannot do this (before 5.14).
size_t packet_buffer_touch(struct packet_buffer *buffer, size_t most);

// Reserves at least `min` and at most `want` contiguous bytes for one packet; *ret_size is their
// number. A ring passes over its oldest packets to make room, but for bytes beyond `min` it drops
// at most a sixteenth of its size. Returns NULL if the packet must be refused (it is counted). One
// reservation at a time, ended by commit or cancel.
uint8_t *packet_buffer_reserve(struct packet_buffer *buffer, size_t min, size_t want,
                               size_t *ret_size);
void packet_buffer_commit(struct packet_buffer *buffer, size_t size,
                          const struct packet_meta *meta);
void packet_buffer_cancel(struct packet_buffer *buffer);

struct packet_view {
    const uint8_t *data; // borrowed until the buffer is written to or consumed; without the
                         // Trace.packet framing
    size_t size;
    uint32_t sequence_id;
};

// Returns the oldest packet, with those of the retained store first, or false if the buffer is
// empty. packet_buffer_consume() removes the packet.
bool packet_buffer_peek(struct packet_buffer *buffer, struct packet_view *ret);
void packet_buffer_consume(struct packet_buffer *buffer);

// For the last reading of a buffer: its memory goes back to the system while it is consumed. A
// write into the buffer ends that.
void packet_buffer_release_consumed(struct packet_buffer *buffer);

// Walks over the packets that are present at the first call, oldest first, without removing them
// (for snapshots). Begin with a zeroed cursor. The buffer may be written to and consumed between
// the calls: packets that were lost or consumed meanwhile are left out, and no packet comes twice.
struct packet_cursor {
    uint64_t position; // of the next packet; see packet_buffer.c
    uint64_t end;
    uint64_t first_position, first_end; // the same in the beginning that a ring keeps
    uint64_t store_epoch;
    size_t store_offset;
    bool started;
};
bool packet_buffer_next(const struct packet_buffer *buffer, struct packet_cursor *cursor,
                        struct packet_view *ret);

// Returns an upper bound of what packet_buffer_copy() would take now, without a walk.
uint64_t packet_buffer_copy_bytes(const struct packet_buffer *buffer);

// Makes a new buffer (DISCARD) with the packets of `buffer`, which keeps them. The copy gives the
// same order of packets, once: it is as large as needed, and releases consumed memory.
int packet_buffer_copy(const struct packet_buffer *buffer, struct packet_buffer **ret,
                       struct err *err);

void packet_buffer_get_stats(const struct packet_buffer *buffer, struct packet_buffer_stats *ret);
