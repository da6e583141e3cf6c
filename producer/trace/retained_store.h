// SPDX-License-Identifier: Apache-2.0
//
// Packets that have left a ring but must be kept (packet_buffer.h), under keys, in the order of
// their arrival. At the limit, the oldest packets are dropped first. Only packet_buffer.c uses the
// store.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "producer/trace/packet_buffer.h"

struct retained_store;

// Makes a store of `limit_bytes` of address space, touched only as the store fills.
int retained_store_new(size_t limit_bytes, struct retained_store **ret, struct err *err);
// See buffer_memory.h.
void retained_store_keep_in_fork(const struct retained_store *store, bool keep);
struct retained_store *retained_store_free(struct retained_store *store);

// Applies meta->retain. `position` is the packet's place in the ring, which only grows. Returns
// true if the packet was kept.
bool retained_store_take(struct retained_store *store, const struct packet_meta *meta,
                         uint64_t position, const uint8_t *data, size_t size);

// Sets *ret to the oldest packet. Returns false if the store is empty. Views last until the next
// take or drop.
bool retained_store_peek(struct retained_store *store, struct packet_view *ret);
void retained_store_drop_first(struct retained_store *store);

// Sets *ret to the first packet at or after cursor->position, and moves the cursor past this
// packet. Returns false at the end.
bool retained_store_next(const struct retained_store *store, struct packet_cursor *cursor,
                         struct packet_view *ret);

struct retained_store_stats {
    uint64_t packets, bytes; // at present
    uint64_t dropped;        // dropped at the limit, in total
};
struct retained_store_stats retained_store_get_stats(const struct retained_store *store);
