// SPDX-License-Identifier: Apache-2.0
//
// Buffers of packets on their way to the file: one block of memory per buffer of the config,
// RING_BUFFER or DISCARD. Sources encode straight into the block (reserve, write, commit). Nothing
// is copied until the packet goes to the file.
//
// A ring drops its oldest packets. Some packets must survive, because later packets refer to them:
// process names, track descriptors, complete residency lists. Their writer gives them a key and a
// `packet_retain` rule. When the ring needs the room of a packet with a rule, the packet moves to a
// store beside the ring. A reader of the buffer gets the store's packets first. Therefore the
// packets that explain others outlive a wrap of the ring.
//
// A ring may keep its beginning, too (packet_buffer_new_both_ends): then the first and the newest
// packets stay. Packets that are dropped between them count as lost.
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

// The fate of a packet whose room the ring needs. Keys belong to the writer; each sequence has its
// own keys.
enum packet_retain {
    PACKET_PLAIN,          // dropped
    PACKET_RETAIN_REPLACE, // kept; replaces everything kept under this key
    PACKET_RETAIN_APPEND,  // kept after everything kept under this key
    PACKET_RETAIN_FORGET,  // dropped, with everything kept under this key
    PACKET_RETAIN_ALWAYS,  // as REPLACE, and never displaced by others; for one small packet per
                           // sequence
};

struct packet_meta {
    uint32_t sequence_id;
    enum packet_retain retain;
    uint64_t key;      // key for `retain`; ignored for PACKET_PLAIN
    uint64_t n_events; // for PACKET_PLAIN: events to count if the packet is lost
};

// Counts since the creation of the buffer, for TraceStats.BufferStats.
struct packet_buffer_stats {
    uint64_t size_bytes;
    uint64_t packets_written, bytes_written;
    uint64_t packets_overwritten,
        bytes_overwritten;      // by the ring, without retained packets
    uint64_t packets_discarded; // refused: DISCARD and full, or larger than the buffer
    // Overwritten packets, and their events, of a ring that keeps both ends. A ring that keeps only
    // its newest data loses nothing.
    uint64_t packets_lost, events_lost;
    bool full; // DISCARD: no more packets are taken
    uint64_t packets_read, bytes_read;
    uint64_t wraps; // restarts at the beginning of the memory with unread data in the buffer
    uint64_t retained_packets, retained_bytes; // presently beside the ring
    uint64_t retained_dropped;                 // lost because the store was at its limit
};

struct packet_buffer;

// Makes a buffer of `size_bytes`, at least 4096, rounded up to pages, which are touched only as the
// buffer fills. The retained store of a ring may grow to a quarter of the size, or to 1 MiB if this
// is more.
int packet_buffer_new(size_t size_bytes, enum packet_buffer_policy policy,
                      struct packet_buffer **ret, struct err *err);
// Makes a ring of `size_bytes` that keeps its first packets in a part of `first_bytes`. The ring
// proper begins when this part is full. Both sizes are at least 4096. After a complete read, the
// buffer starts again with the first part.
int packet_buffer_new_both_ends(size_t size_bytes, size_t first_bytes, struct packet_buffer **ret,
                                struct err *err);
struct packet_buffer *packet_buffer_free(struct packet_buffer *buffer);

// Returns the limit of the retained bytes of all writers together. UINT64_MAX: the buffer keeps all
// packets that it took (DISCARD).
uint64_t packet_buffer_retainable_bytes(const struct packet_buffer *buffer);

// Sets a function for a buffer that keeps both ends. The buffer calls the function with each
// PACKET_PLAIN that it is about to lose. `data` and `size` are the packet's. The function must not
// write into the buffer.
typedef void packet_buffer_lost_fn(void *userdata, uint32_t sequence_id, const uint8_t *data,
                                   size_t size);
void packet_buffer_on_lost(struct packet_buffer *buffer, packet_buffer_lost_fn *fn, void *userdata);

// Subtracts `n_events` from the lost events, because they have been written again.
void packet_buffer_unlose(struct packet_buffer *buffer, uint64_t n_events);

// Sets whether children after fork() have a copy of the packets (buffer_memory.h).
void packet_buffer_keep_in_fork(const struct packet_buffer *buffer, bool keep);

// Touches up to `most` bytes of the buffer's memory now, in the order of writing. Returns the
// number of touched bytes. No effect if the kernel does not support this (before 5.14).
size_t packet_buffer_touch(struct packet_buffer *buffer, size_t most);

// Reserves at least `min` and at most `want` contiguous bytes for one packet; *ret_size is their
// number. A ring drops its oldest packets to make room, but for bytes beyond `min` it frees at most
// a sixteenth of its size. Returns NULL, and counts the packet, if the packet must be refused. One
// reservation at a time, ended by commit or cancel.
uint8_t *packet_buffer_reserve(struct packet_buffer *buffer, size_t min, size_t want,
                               size_t *ret_size);
void packet_buffer_commit(struct packet_buffer *buffer, size_t size,
                          const struct packet_meta *meta);
void packet_buffer_cancel(struct packet_buffer *buffer);

struct packet_view {
    const uint8_t *data; // without the Trace.packet framing; borrowed until the next write or
                         // consume
    size_t size;
    uint32_t sequence_id;
};

// Sets *ret to the oldest packet; packets of the retained store are the oldest. Returns false if
// the buffer is empty. packet_buffer_consume() removes the packet.
bool packet_buffer_peek(struct packet_buffer *buffer, struct packet_view *ret);
void packet_buffer_consume(struct packet_buffer *buffer);

// From now on, returns consumed memory to the kernel; for the last read of a buffer. The next write
// ends this mode.
void packet_buffer_release_consumed(struct packet_buffer *buffer);

// Walks over the packets that are present at the first call, oldest first, without removing them
// (for snapshots). Begin with a zeroed cursor. The buffer may be written to and consumed between
// the calls: packets that were lost or consumed meanwhile are left out, and no packet appears
// twice.
struct packet_cursor {
    uint64_t position; // of the next packet; see packet_buffer.c
    uint64_t end;
    uint64_t first_position, first_end; // in the beginning that a ring keeps
    uint64_t store_epoch;
    size_t store_offset;
    bool started;
};
bool packet_buffer_next(const struct packet_buffer *buffer, struct packet_cursor *cursor,
                        struct packet_view *ret);

// Returns an upper bound of the size of packet_buffer_copy() in bytes, without a walk.
uint64_t packet_buffer_copy_bytes(const struct packet_buffer *buffer);

// Makes a new buffer (DISCARD) with the packets of `buffer`, which keeps them. The copy has the
// same order of packets and only the needed size. It can be read once: consumed memory goes back to
// the kernel.
int packet_buffer_copy(const struct packet_buffer *buffer, struct packet_buffer **ret,
                       struct err *err);

void packet_buffer_get_stats(const struct packet_buffer *buffer, struct packet_buffer_stats *ret);
