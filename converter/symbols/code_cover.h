// SPDX-License-Identifier: Apache-2.0
//
// Which of many overlapping ranges of code covers an address: the last that was put there. Exact;
// O(log n) for a range and for an address, with n addresses that are given at first.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CODE_NONE UINT32_MAX

// All zero is empty.
struct code_cover {
    const uint64_t *addresses; // borrowed, ascending; equal ones may follow each other
    size_t n;
    uint32_t *last; // owned: by node, number + 1
};

// 0 or -ENOMEM. `addresses` must live on.
int code_cover_init(struct code_cover *cover, const uint64_t *addresses, size_t n);

// Code from `start` up to `end`. Numbers come in ascending order, below CODE_NONE. Returns how many
// of the addresses it covers.
size_t code_cover_put(struct code_cover *cover, uint64_t start, uint64_t end, uint32_t number);

// The highest number that covers addresses[at]. CODE_NONE: nothing does.
uint32_t code_cover_at(const struct code_cover *cover, size_t at);

void code_cover_done(struct code_cover *cover); // leaves it empty; fit for CLEANUP()
