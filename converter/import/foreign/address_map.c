// SPDX-License-Identifier: Apache-2.0
//
// The map has an entry for each address at which the value changes. The entries are in sorted
// blocks.
#include "converter/import/foreign/address_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

struct place {
    size_t block, entry;
};

// Returns the place of the first entry at or after `address`. In the last block, the place may be
// beyond the block's end.
static struct place lower_bound(const struct address_map *map, uint64_t address)
{
    size_t low = 0, high = map->blocks.n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (map->blocks.items[middle]->entries[0].start <= address)
            low = middle;
        else
            high = middle;
    }
    struct place place = {.block = low};
    if (!map->blocks.n)
        return place;
    const struct address_block *block = map->blocks.items[low];
    size_t first = 0, last = block->n;
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (block->entries[middle].start < address)
            first = middle + 1;
        else
            last = middle;
    }
    place.entry = first;
    if (first == block->n && low + 1 < map->blocks.n)
        place = (struct place){.block = low + 1};
    return place;
}

static const struct address_entry *entry_at(const struct address_map *map, struct place place)
{
    if (place.block >= map->blocks.n || place.entry >= map->blocks.items[place.block]->n)
        return NULL;
    return &map->blocks.items[place.block]->entries[place.entry];
}

int64_t address_map_find(const struct address_map *map, uint64_t address)
{
    struct place place = lower_bound(map, address);
    const struct address_entry *entry = entry_at(map, place);
    if (entry && entry->start == address)
        return entry->value;
    if (place.entry)
        return map->blocks.items[place.block]->entries[place.entry - 1].value;
    if (!place.block)
        return ADDRESS_NONE;
    const struct address_block *before = map->blocks.items[place.block - 1];
    return before->entries[before->n - 1].value;
}

static void block_remove(struct address_map *map, size_t block)
{
    free(map->blocks.items[block]);
    map->blocks.n--;
    memmove(&map->blocks.items[block], &map->blocks.items[block + 1],
            (map->blocks.n - block) * sizeof(map->blocks.items[0]));
}

// Removes the entries from `start` to before `end`; without `end`, all entries from `start` on.
static void entries_remove(struct address_map *map, uint64_t start, bool has_end, uint64_t end)
{
    for (;;) {
        struct place place = lower_bound(map, start);
        if (!entry_at(map, place))
            return;
        struct address_block *block = map->blocks.items[place.block];
        size_t stop = place.entry;
        while (stop < block->n && (!has_end || block->entries[stop].start < end))
            stop++;
        if (stop == place.entry)
            return;
        memmove(&block->entries[place.entry], &block->entries[stop],
                (block->n - stop) * sizeof(block->entries[0]));
        block->n -= stop - place.entry;
        if (!block->n)
            block_remove(map, place.block);
    }
}

static int block_split(struct address_map *map, size_t at)
{
    struct address_block *half = memory_calloc(1, sizeof(*half)), *block = map->blocks.items[at];
    if (!half || address_block_vec_push(&map->blocks, half) < 0) {
        free(half);
        return -ENOMEM;
    }
    memmove(&map->blocks.items[at + 2], &map->blocks.items[at + 1],
            (map->blocks.n - at - 2) * sizeof(map->blocks.items[0]));
    map->blocks.items[at + 1] = half;
    half->n = block->n / 2;
    block->n -= half->n;
    memcpy(half->entries, &block->entries[block->n], half->n * sizeof(half->entries[0]));
    return 0;
}

// Adds an entry, or sets the value of an existing entry.
static int entry_put(struct address_map *map, uint64_t start, int64_t value)
{
    if (!map->blocks.n) {
        struct address_block *first = memory_calloc(1, sizeof(*first));
        if (!first || address_block_vec_push(&map->blocks, first) < 0) {
            free(first);
            return -ENOMEM;
        }
    }
    struct place place = lower_bound(map, start);
    struct address_block *block = map->blocks.items[place.block];
    if (place.entry < block->n && block->entries[place.entry].start == start) {
        block->entries[place.entry].value = value;
        return 0;
    }
    if (block->n == ADDRESS_BLOCK) {
        if (block_split(map, place.block) < 0)
            return -ENOMEM;
        place = lower_bound(map, start);
        block = map->blocks.items[place.block];
    }
    memmove(&block->entries[place.entry + 1], &block->entries[place.entry],
            (block->n - place.entry) * sizeof(block->entries[0]));
    block->entries[place.entry] = (struct address_entry){start, value};
    block->n++;
    return 0;
}

int address_map_put(struct address_map *map, uint64_t start, uint64_t size, int64_t value)
{
    uint64_t end;
    bool has_end = !__builtin_add_overflow(start, size, &end);
    if (!size)
        return 0;
    int64_t after = has_end ? address_map_find(map, end) : ADDRESS_NONE;
    entries_remove(map, start, has_end, end);
    int r = entry_put(map, start, value);
    return r == 0 && has_end ? entry_put(map, end, after) : r;
}

void address_map_done(struct address_map *map)
{
    vec_foreach(&map->blocks, block)
        free(*block);
    address_block_vec_done(&map->blocks);
}
