// SPDX-License-Identifier: Apache-2.0
//
// A zip can have a million entries and a probe a million runs: each part finds its first run by
// bisection, and all runs are in one array.
#include "producer/pintool/coverage.h"

size_t coverage_first(const struct page_ranges *set, uint64_t offset)
{
    size_t low = 0, high = set->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->items[middle].end > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// Appends the parts of [start, end) that are in `set`.
static int add_range(struct coverages *list, struct coverage *item, uint64_t start, uint64_t end,
                     const struct page_ranges *set)
{
    struct page_range whole = {.start = start, .end = end};
    const struct page_range *at = &whole, *last = &whole + 1;
    if (set && !set->n)
        return 0;
    if (set) {
        at = set->items + coverage_first(set, start);
        last = set->items + set->n;
    }
    for (; start < end && at < last && at->start < end; at++) {
        struct page_range found = {.start = at->start > start ? at->start : start,
                                   .end = at->end < end ? at->end : end};
        int r = page_ranges_push(&list->pool, found);
        if (r < 0)
            return r;
        item->n_ranges++;
        item->covered_bytes += found.end - found.start;
    }
    return 0;
}

int coverages_add(struct coverages *list, const struct part *part, const struct page_ranges *set)
{
    struct coverage item = {.part = *part, .first_range = list->pool.n};
    int r = add_range(list, &item, part->offset, part->offset + part->size_bytes, set);
    return r < 0 ? r : coverage_items_push(&list->items, item);
}

int coverages_add_wanted(struct coverages *list, const struct part *part,
                         const struct page_ranges *wanted, const struct page_ranges *set)
{
    struct coverage item = {.part = *part, .first_range = list->pool.n};
    vec_foreach(wanted, range) {
        int r = add_range(list, &item, range->start, range->end, set);
        if (r < 0)
            return r;
    }
    return coverage_items_push(&list->items, item);
}

void coverages_clear(struct coverages *list)
{
    coverage_items_clear(&list->items);
    page_ranges_clear(&list->pool);
}

void coverages_done(struct coverages *list)
{
    coverage_items_done(&list->items);
    page_ranges_done(&list->pool);
}

double coverage_percent(uint64_t covered_bytes, uint64_t size_bytes)
{
    return size_bytes ? (double)covered_bytes / (double)size_bytes * 100.0 : 0;
}

// Density. Full and empty are exact: a cell that lacks a single byte is not drawn as full, and a
// cell with a single byte is not drawn as empty. In between, levels are equal steps.

// Returns size * i / n without overflow.
static uint64_t cell_border(uint64_t size, size_t i, size_t n)
{
    return size / n * i + size % n * i / n;
}

static uint8_t level_of(uint64_t covered, uint64_t size, unsigned n_levels)
{
    if (covered == 0)
        return 0;
    if (covered >= size)
        return (uint8_t)n_levels;
    double part = (double)covered / (double)size * (n_levels - 1);
    return (uint8_t)(part >= n_levels - 1 ? n_levels - 1 : 1 + (unsigned)part);
}

void density_levels(const struct page_range *ranges, size_t n_ranges, uint64_t offset,
                    uint64_t size_bytes, unsigned n_levels, size_t n_cells, uint8_t *ret)
{
    size_t at = 0;
    for (size_t i = 0; i < n_cells; i++) {
        uint64_t start = offset + cell_border(size_bytes, i, n_cells);
        uint64_t end = offset + cell_border(size_bytes, i + 1, n_cells);
        if (end == start)
            end = start + 1;
        while (at < n_ranges && ranges[at].end <= start)
            at++;
        uint64_t covered = 0;
        for (size_t j = at; j < n_ranges && ranges[j].start < end; j++) {
            uint64_t from = ranges[j].start > start ? ranges[j].start : start;
            uint64_t to = ranges[j].end < end ? ranges[j].end : end;
            covered += to - from;
        }
        ret[i] = level_of(covered, end - start, n_levels);
    }
}
