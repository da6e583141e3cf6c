// SPDX-License-Identifier: Apache-2.0
//
// Draws the allocations that become samples. One per thread; all zero is a new thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct draw {
    uint64_t random;
    uint32_t at, taken; // position in the row of draw_nth(), and the position that is taken
};

// Returns a number in [0, 1).
double draw_uniform(struct draw *draw);

// Returns true for one of `rate` consecutive calls.
bool draw_nth(struct draw *draw, uint32_t rate);

// Returns an interval for VMs that draw the distances between reported bytes themselves: the
// largest mean distance with which the smallest object is still reported once in `rate`.
int32_t draw_interval(uint32_t rate, int64_t smallest_bytes);

// Thins out the objects that a VM of this kind reports: returns true so often that an allocation of
// any size has one chance in `rate`.
bool draw_even(struct draw *draw, uint32_t rate, int32_t interval, int64_t size);
