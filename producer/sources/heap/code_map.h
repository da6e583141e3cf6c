// SPDX-License-Identifier: Apache-2.0
//
// Maps addresses to pieces of code: ranges of addresses, each with a number. Where ranges overlap,
// the range that was added last counts.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"

#define CODE_MAP_NONE UINT32_MAX

struct code_range {
    uint64_t start, end; // [start, end)
    uint32_t number;
};
VEC_DEFINE(code_range_vec, struct code_range);

// All zero is empty.
struct code_map {
    struct code_range_vec ranges; // by address; they do not overlap
};

// Adds a range, if it is not empty: the map grows by at most two ranges. Returns 0, or -ENOMEM
// without a change.
int code_map_add(struct code_map *map, uint64_t start, uint64_t end, uint32_t number);
uint32_t code_map_find(const struct code_map *map, uint64_t address); // CODE_MAP_NONE: none
void code_map_clear(struct code_map *map);
void code_map_done(struct code_map *map);
