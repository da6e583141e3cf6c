// SPDX-License-Identifier: Apache-2.0
//
// Decides which allocations are samples, and how many bytes each stands for. Every byte is a
// sampling point with probability 1/interval. An allocation stands for the interval times the
// number of its points, which on average is its size. An allocation so large that it would be
// missed less than once in a hundred times is always a sample and stands for itself.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sampler {
    int64_t left; // bytes to the next point
    uint64_t random;
    double scale; // of the distances between points
};

// Returns the size from which on allocations are exact: they contain a point with a probability of
// 99 %.
uint64_t sampler_threshold(uint64_t interval);

// Starts anew. `seed` should differ between threads.
void sampler_reset(struct sampler *sampler, uint64_t seed, uint64_t interval);

// Finishes the decision for an allocation that made `left` 0 or negative and is smaller than the
// threshold. Returns the bytes that the allocation stands for. `interval` must be the interval of
// sampler_reset().
uint64_t sampler_take(struct sampler *sampler, uint64_t interval);
