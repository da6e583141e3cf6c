// SPDX-License-Identifier: Apache-2.0
//
// Chooses the pages to pin, from the evidence of a recording.
#pragma once

#include "common/ranges.h"
#include "producer/pintool/evidence.h"

// Clears *ret and adds the pages of the highest value, at most `n_max`. Pages without any evidence
// are never chosen. Returns 0 or -ENOMEM.
int choice_make(const struct evidence *evidence, uint64_t n_max, struct page_ranges *ret);

// The evidence about a range, summed over its pages.
struct choice_sum {
    uint64_t n_resident, n_evicted, n_read_back;
    double reads;
};

struct choice_sum choice_sum(const struct evidence *evidence, const struct page_range *range);
