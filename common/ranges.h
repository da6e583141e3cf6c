// SPDX-License-Identifier: Apache-2.0
//
// Sets of page numbers (or of byte offsets, if a user says so), as half-open runs that are sorted,
// disjoint and do not touch. The residency probe, the sampler, pinlists and the converter's
// residency tables use this type.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"

// The pages from `start` up to, but not including, `end`; start < end.
struct page_range {
    uint64_t start;
    uint64_t end;
};

VEC_DEFINE(page_ranges, struct page_range);

// Appends [start, end), joined with the last run if the two touch or overlap. `start` must not lie
// before the last run's start. An empty range is ignored. Returns 0 or -ENOMEM.
int page_ranges_append(struct page_ranges *ranges, uint64_t start, uint64_t end);

// Appends pages from `n` bytes in the format of mincore(2): one byte per page from page `start` on,
// whose lowest bit is set if the page is in the set. The last run must not end after `start`.
// Returns 0 or -ENOMEM.
int page_ranges_append_bytes(struct page_ranges *ranges, uint64_t start, const uint8_t *bytes,
                             size_t n);

// Sorts and joins runs that were pushed in any order.
void page_ranges_normalize(struct page_ranges *ranges);

uint64_t page_ranges_count(const struct page_ranges *ranges); // pages in all runs
bool page_ranges_equal(const struct page_ranges *a, const struct page_ranges *b);

// Sets *ret to the pages that are in exactly one of the two sets. The xor of *ret and either set is
// the other set. *ret is cleared first. Returns 0 or -ENOMEM.
int page_ranges_xor(const struct page_ranges *a, const struct page_ranges *b,
                    struct page_ranges *ret);

// Sets *ret to the pages that are in both sets. *ret is cleared first. Returns 0 or -ENOMEM.
int page_ranges_and(const struct page_ranges *a, const struct page_ranges *b,
                    struct page_ranges *ret);
