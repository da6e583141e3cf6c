// SPDX-License-Identifier: Apache-2.0
//
// The kernel's rings of perf records, one for each CPU, read together in the order of time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"
#include "producer/sources/perf/perf_ring_record.h"

#define PERF_RECORD_BYTES ((size_t)1 << 16)

struct perf_ring {
    void *pages; // owned: one page of counters, then the data. NULL: none
    size_t pages_size;
    uint8_t *data;       // borrowed from `pages`
    uint64_t data_size;  // a power of two
    uint64_t head, tail; // of this round
    bool has_record;     // `record` is the next one
    struct perf_record record;
    size_t record_size;
    uint8_t *copy; // owned; a record that wraps around the end of the ring
    uint64_t n_damaged;
    bool was_full; // since the round before, a record may have found no room
};
VEC_DEFINE(perf_ring_vec, struct perf_ring);

// Maps the ring of an event with `pages` pages of data, a power of two. Returns 0 or a negative
// errno.
int perf_ring_map(struct perf_ring *ring, int fd, uint32_t pages);
void perf_ring_unmap(struct perf_ring *ring);

// Begins a round: the records that are in the rings now.
void perf_rings_begin(struct perf_ring_vec *rings, const struct perf_layout *layout);
// Returns the ring with the oldest record up to `time_max`, or NULL. The record is valid until the
// next call.
struct perf_ring *perf_rings_next(struct perf_ring_vec *rings, const struct perf_layout *layout,
                                  uint64_t time_max);
// Lets the kernel write over the records of this round, and sets was_full.
void perf_rings_end(struct perf_ring_vec *rings);
