// SPDX-License-Identifier: Apache-2.0
//
// Sets of page numbers (or of byte offsets, where a user says so) as sorted, disjoint, non-touching
// half-open runs. The common currency of the residency probe, the sampler, pinlists and the
// converter's residency tables.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"

// Pages `start` up to, not including, `end`; start < end.
struct page_range {
    uint64_t start;
    uint64_t end;
};

VEC_DEFINE(page_ranges, struct page_range);

// Appends [start, end), joining it with the last run where they touch or overlap. `start` must not
// lie before the last run's start. Empty ranges are ignored. 0 or -ENOMEM.
int page_ranges_append(struct page_ranges *ranges, uint64_t start, uint64_t end);

// Appends the pages of `n` bytes, one a page from `start` on, whose lowest bit is set: what
// mincore(2) returns. The last run must not end behind `start`. 0 or -ENOMEM.
int page_ranges_append_bytes(struct page_ranges *ranges, uint64_t start, const uint8_t *bytes,
                             size_t n);

// Sorts and joins runs that were pushed in any order.
void page_ranges_normalize(struct page_ranges *ranges);

uint64_t page_ranges_count(const struct page_ranges *ranges); // pages in all runs
bool page_ranges_equal(const struct page_ranges *a, const struct page_ranges *b);

// *ret (cleared first) becomes the pages that are in exactly one of the two sets: applied to
// either, it gives the other. 0 or -ENOMEM.
int page_ranges_xor(const struct page_ranges *a, const struct page_ranges *b,
                    struct page_ranges *ret);

// *ret (cleared first) becomes the pages that are in both. 0 or -ENOMEM.
int page_ranges_and(const struct page_ranges *a, const struct page_ranges *b,
                    struct page_ranges *ret);
