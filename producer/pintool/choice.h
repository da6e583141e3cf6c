// SPDX-License-Identifier: Apache-2.0
//
// Which pages to pin, given what is known about them and how many there may be.
#pragma once

#include "common/ranges.h"
#include "producer/pintool/evidence.h"

// *ret (cleared first) becomes the at most `n_max` pages that are worth most. Pages without any
// evidence are never chosen. 0 or -ENOMEM.
int choice_make(const struct evidence *evidence, uint64_t n_max, struct page_ranges *ret);

// What the evidence says about a range, summed over its pages.
struct choice_sum {
    uint64_t n_resident, n_evicted, n_read_back;
    double reads;
};

struct choice_sum choice_sum(const struct evidence *evidence, const struct page_range *range);
