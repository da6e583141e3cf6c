// SPDX-License-Identifier: Apache-2.0
//
// Full and empty are exact: a cell that lacks a single byte is not drawn as full, and a cell with a
// single byte is not drawn as empty. In between, levels are equal steps.
#include "producer/pintool/density.h"

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
