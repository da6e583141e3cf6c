// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as runs of pages. Accepted runs are sorted and disjoint, and come back when they
// are written and read again, in parts of any size.
#include <errno.h>
#include <stdlib.h>

#include "common/page_runs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_order(const struct page_ranges *ranges)
{
    uint64_t end = 0;
    for (size_t i = 0; i < ranges->n; i++) {
        const struct page_range *range = &ranges->items[i];
        if (range->start >= range->end || (i && range->start <= end))
            abort();
        end = range->end;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    size_t room = 2 * PAGE_RUN_MAX + data[0];
    struct page_ranges ranges = {0}, back = {0};
    int r = page_runs_read(data + 1, size - 1, 0, &ranges);
    if (r < 0 && r != -EBADMSG)
        abort();
    check_order(&ranges);
    for (size_t first = 0; first < ranges.n;) {
        uint8_t memory[2 * PAGE_RUN_MAX + 255];
        struct wire_writer w = wire_writer_over(memory, room);
        uint64_t base = first ? ranges.items[first - 1].end : 0;
        size_t n = page_runs_write(&w, &ranges, first, base, PAGE_RUN_MAX);
        if (!n || w.overflow || page_runs_read(memory, wire_size(&w), base, &back) != 0)
            abort();
        first += n;
    }
    if (!page_ranges_equal(&ranges, &back))
        abort();
    page_ranges_done(&ranges);
    page_ranges_done(&back);
    return 0;
}
