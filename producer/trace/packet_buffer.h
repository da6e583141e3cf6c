// SPDX-License-Identifier: Apache-2.0
//
// Where packets wait for the file: one block of memory per buffer of the config, RING_BUFFER or
// DISCARD. Sources encode straight into it (reserve, write, commit); nothing is copied until the
// packet goes to the file.
//
// A ring forgets its oldest packets. Some packets must outlive that: process names, track
// descriptors, complete residency lists, everything that later packets refer to. Their writer gives
// them a key and a `packet_retain` rule; when the ring passes over such a packet, it moves to a
// store beside the ring, where it comes out first when the buffer is read. So a wrapped ring still
// explains every packet that is in it.
//
// A ring may keep its beginning, too (packet_buffer_new_both_ends): the first packets stay, the
// newest stay, and what a flood pushes out between them is counted as lost.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum packet_buffer_policy {
    PACKET_BUFFER_RING,    // the newest data wins
    PACKET_BUFFER_DISCARD, // the oldest data wins: once a packet does not fit, nothing is taken any
                           // more
};

// What becomes of a packet when a ring passes over it. Keys are the writer's; they are told apart
// by sequence.
enum packet_retain {
    PACKET_PLAIN,          // forgotten
    PACKET_RETAIN_REPLACE, // kept; everything kept under this key before goes
    PACKET_RETAIN_APPEND,  // kept behind what is kept under this key
    PACKET_RETAIN_FORGET,  // not kept itself, and everything kept under this key goes
    PACKET_RETAIN_ALWAYS,  // as REPLACE, and never lost to others; for one small packet a sequence
};

struct packet_meta {
    uint32_t sequence_id;
    enum packet_retain retain;
    uint64_t key;      // of `retain`; ignored for PACKET_PLAIN
    uint64_t n_events; // of PACKET_PLAIN: what the packet counts when it is lost
};

// Counted from the buffer's beginning; TraceStats.BufferStats is made from it.
struct packet_buffer_stats {
    uint64_t size_bytes;
    uint64_t packets_written, bytes_written;
    uint64_t packets_overwritten,
        bytes_overwritten;      // by the ring; those that were retained do not count
    uint64_t packets_discarded; // refused: DISCARD and full, or larger than the buffer
    // Overwritten packets between the two ends of a ring that keeps both ends, and the events in
    // them. A ring that keeps its newest data only has lost nothing.
    uint64_t packets_lost, events_lost;
    bool full; // DISCARD: nothing is taken any more
    uint64_t packets_read, bytes_read;
    uint64_t wraps; // times that writing went on at the beginning while there was unread data
    uint64_t retained_packets, retained_bytes; // at present, beside the ring
    uint64_t retained_dropped;                 // lost because the store had reached its limit
};

struct packet_buffer;

// `size_bytes` of memory (rounded up to pages, touched only as it fills), at least 4096. The
// retained store may grow to a quarter of that or 1 MiB, whichever is more.
int packet_buffer_new(size_t size_bytes, enum packet_buffer_policy policy,
                      struct packet_buffer **ret, struct err *err);
// A ring of `size_bytes`, of which `first_bytes` hold what comes first. The ring proper begins when
// they are full. Both are 4096 at least. A buffer that was read to its end begins anew.
int packet_buffer_new_both_ends(size_t size_bytes, size_t first_bytes, struct packet_buffer **ret,
                                struct err *err);
struct packet_buffer *packet_buffer_free(struct packet_buffer *buffer);

// What all writers together may have kept beside a ring. UINT64_MAX: the buffer forgets nothing.
uint64_t packet_buffer_retainable_bytes(const struct packet_buffer *buffer);

// Calls `fn` for each PACKET_PLAIN that a buffer which keeps both ends loses, just before; `data`
// and `size` are the packet's. It must not write into the buffer.
typedef void packet_buffer_lost_fn(void *userdata, uint32_t sequence_id, const uint8_t *data,
                                   size_t size);
void packet_buffer_on_lost(struct packet_buffer *buffer, packet_buffer_lost_fn *fn, void *userdata);

// So many of the lost events were written again.
void packet_buffer_unlose(struct packet_buffer *buffer, uint64_t n_events);

// Takes up to `most` bytes of the buffer's memory from the kernel now, those that are written
// first, instead of as it fills; returns how many. Nothing happens where the kernel cannot
// (before 5.14).
size_t packet_buffer_touch(struct packet_buffer *buffer, size_t most);

// At least `min` and at most `want` contiguous bytes to write one packet into, `*ret_size` says how
// many. A ring passes over its oldest packets for them, but for what goes beyond `min` it gives up
// at most a sixteenth of its size. NULL when the packet must be refused (it is counted). One
// reservation at a time, ended by commit or cancel.
uint8_t *packet_buffer_reserve(struct packet_buffer *buffer, size_t min, size_t want,
                               size_t *ret_size);
void packet_buffer_commit(struct packet_buffer *buffer, size_t size,
                          const struct packet_meta *meta);
void packet_buffer_cancel(struct packet_buffer *buffer);

struct packet_view {
    const uint8_t *data; // borrowed, until the buffer is written to or consumed; without the
                         // Trace.packet framing
    size_t size;
    uint32_t sequence_id;
};

// The oldest packet, the retained store's first. False when empty. packet_buffer_consume() takes it
// away.
bool packet_buffer_peek(struct packet_buffer *buffer, struct packet_view *ret);
void packet_buffer_consume(struct packet_buffer *buffer);

// For a buffer that is read for the last time: from now on its memory goes back to the system while
// it is consumed. Writing into it is possible and ends that.
void packet_buffer_release_consumed(struct packet_buffer *buffer);

// Walks over what is there at the first call, oldest first, without taking it away (for snapshots);
// zeroed cursor at first. The buffer may be written to and consumed between the calls: what has
// been lost or consumed meanwhile is left out, nothing comes twice.
struct packet_cursor {
    uint64_t position; // of what comes next; see packet_buffer.c
    uint64_t end;
    uint64_t first_position, first_end; // the same in the beginning that a ring keeps
    uint64_t store_epoch;
    size_t store_offset;
    bool started;
};
bool packet_buffer_next(const struct packet_buffer *buffer, struct packet_cursor *cursor,
                        struct packet_view *ret);

// What packet_buffer_copy() takes at present. A bound that costs no walk.
uint64_t packet_buffer_copy_bytes(const struct packet_buffer *buffer);

// A new buffer (DISCARD) with what `buffer` holds, which keeps it, to be read in the same order,
// once: it has just the size for it, and releases what is consumed.
int packet_buffer_copy(const struct packet_buffer *buffer, struct packet_buffer **ret,
                       struct err *err);

void packet_buffer_get_stats(const struct packet_buffer *buffer, struct packet_buffer_stats *ret);
