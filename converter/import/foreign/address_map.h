// SPDX-License-Identifier: Apache-2.0
//
// The ranges of an address space, and the owner of each range. A later range replaces earlier
// ranges. Adding a range and a look-up take O(log n), apart from a move of pointers when the map
// grows by a block.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"

#define ADDRESS_NONE  (-1)
#define ADDRESS_BLOCK 256

// From `start` on, addresses belong to `value`.
struct address_entry {
    uint64_t start;
    int64_t value;
};

struct address_block {
    size_t n;
    struct address_entry entries[ADDRESS_BLOCK];
};
VEC_DEFINE(address_block_vec, struct address_block *);

// All zero is empty.
struct address_map {
    struct address_block_vec blocks; // owned, in order, none of them empty
};

// Sets the value of `size` addresses from `start` on; a range beyond the last address is cut there.
// Returns 0 or -ENOMEM.
int address_map_put(struct address_map *map, uint64_t start, uint64_t size, int64_t value);

// Returns the value of an address, or ADDRESS_NONE.
int64_t address_map_find(const struct address_map *map, uint64_t address);

void address_map_done(struct address_map *map);
