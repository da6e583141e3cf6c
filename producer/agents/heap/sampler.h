// SPDX-License-Identifier: Apache-2.0
//
// Which allocations are samples, and for how many bytes each stands. Every byte is a sampling point
// with probability 1/interval; an allocation stands for interval times the points in it, which is
// its size on average. One that would be missed less than once in a hundred times stands for
// itself.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sampler {
    int64_t left; // bytes to the next point
    uint64_t random;
    double scale; // of the distances between points
};

// The size from which on allocations are exact: a point is in it with a probability of 99 %.
uint64_t sampler_threshold(uint64_t interval);

// Begins anew; `seed` should differ between threads.
void sampler_reset(struct sampler *sampler, uint64_t seed, uint64_t interval);

// What is left of the decision after `left` became negative by `size`, which is below the
// threshold: what the allocation stands for. The interval is that of sampler_reset().
uint64_t sampler_take(struct sampler *sampler, uint64_t interval);
