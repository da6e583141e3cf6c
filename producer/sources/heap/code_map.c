// SPDX-License-Identifier: Apache-2.0
//
// A sorted array with binary search. A program that reports its code in the order of addresses only
// appends. A new range cuts away the parts of older ranges under it.
#include "producer/sources/heap/code_map.h"

#include <stdbool.h>
#include <string.h>

// Returns the index of the first range that ends after the address.
static size_t place_of(const struct code_map *map, uint64_t address)
{
    size_t low = 0, high = map->ranges.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (map->ranges.items[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// Replaces the ranges [from, to) by `n` others.
static void replace(struct code_map *map, size_t from, size_t to, const struct code_range *ranges,
                    size_t n)
{
    struct code_range *items = map->ranges.items;
    memmove(items + from + n, items + to, (map->ranges.n - to) * sizeof(items[0]));
    memcpy(items + from, ranges, n * sizeof(items[0]));
    map->ranges.n += n;
    map->ranges.n -= to - from;
}

int code_map_add(struct code_map *map, uint64_t start, uint64_t end, uint32_t number)
{
    struct code_range fresh[3];
    size_t n = 0;
    if (start >= end)
        return 0;
    int r = code_range_vec_reserve(&map->ranges, map->ranges.n + 2);
    if (r < 0)
        return r;
    const struct code_range *items = map->ranges.items;
    size_t from = place_of(map, start), to = from;
    while (to < map->ranges.n && items[to].start < end)
        to++;
    if (to > from && items[from].start < start)
        fresh[n++] = (struct code_range){items[from].start, start, items[from].number};
    fresh[n++] = (struct code_range){start, end, number};
    if (to > from && items[to - 1].end > end)
        fresh[n++] = (struct code_range){end, items[to - 1].end, items[to - 1].number};
    replace(map, from, to, fresh, n);
    return 0;
}

uint32_t code_map_find(const struct code_map *map, uint64_t address)
{
    size_t i = place_of(map, address);
    bool is_inside = i < map->ranges.n && map->ranges.items[i].start <= address;
    return is_inside ? map->ranges.items[i].number : CODE_MAP_NONE;
}

void code_map_clear(struct code_map *map)
{
    code_range_vec_clear(&map->ranges);
}

void code_map_done(struct code_map *map)
{
    code_range_vec_done(&map->ranges);
}
