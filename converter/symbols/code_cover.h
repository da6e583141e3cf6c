// SPDX-License-Identifier: Apache-2.0
//
// Finds the range of code that covers an address. The last of overlapping ranges counts. Adding a
// range and looking up an address take O(log n) each. The n addresses are given in advance.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CODE_NONE UINT32_MAX

// All zero is empty.
struct code_cover {
    const uint64_t *addresses; // borrowed, ascending; may have duplicates
    size_t n;
    uint32_t *last; // owned: number + 1 for each node
};

// Makes an empty cover. `addresses` must outlive the cover. Returns 0 or -ENOMEM.
int code_cover_init(struct code_cover *cover, const uint64_t *addresses, size_t n);

// Adds code from `start` to before `end`. Numbers must ascend from call to call, below CODE_NONE.
// Returns the number of addresses that the code covers.
size_t code_cover_put(struct code_cover *cover, uint64_t start, uint64_t end, uint32_t number);

// Returns the highest number that covers addresses[at]; CODE_NONE: none.
uint32_t code_cover_at(const struct code_cover *cover, size_t at);

void code_cover_done(struct code_cover *cover); // leaves it empty; fit for CLEANUP()
