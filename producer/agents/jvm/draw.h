// SPDX-License-Identifier: Apache-2.0
//
// Which allocations become samples. One per thread; all zero is a thread that has none yet.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct draw {
    uint64_t random;
    uint32_t at, taken; // of the allocations in a row
};

// In [0, 1).
double draw_uniform(struct draw *draw);

// Of `rate` calls in a row, one is true.
bool draw_nth(struct draw *draw, uint32_t rate);

// For VMs that tell of an object once in a number of bytes that they draw themselves: the largest
// such number (its mean) with which the smallest object still comes up once in `rate`.
int32_t draw_interval(uint32_t rate, int64_t smallest_bytes);

// Of the objects that such a VM tells of, true for as many as leave each allocation, of any size,
// one chance in `rate`.
bool draw_even(struct draw *draw, uint32_t rate, int32_t interval, int64_t size);
