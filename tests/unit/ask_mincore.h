// SPDX-License-Identifier: Apache-2.0
//
// The resident pages of a file, by one plain mincore() over all of it: the residency probe must
// find the same pages.
#pragma once

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "producer/sources/residency/probe.h"
#include "tests/unit/unit.h"

// Returns the resident ranges of the first `pages` pages. The caller releases them.
static inline struct page_ranges ask_mincore(int fd, uint64_t pages)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct page_ranges ranges = {0};
    if (!pages)
        return ranges;
    void *map = mmap(NULL, pages * page, PROT_NONE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    uint8_t *vector = calloc(1, pages);
    assert_non_null(vector);
    assert_int_equal(mincore(map, pages * page, vector), 0);
    for (uint64_t i = 0; i < pages; i++)
        if (vector[i] & 1)
            assert_int_equal(page_ranges_append(&ranges, i, i + 1), 0);
    free(vector);
    munmap(map, pages * page);
    return ranges;
}
