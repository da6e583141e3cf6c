// SPDX-License-Identifier: Apache-2.0
//
// A file offset has 63 bits, so no page number exceeds 2^52, even with the smallest pages (4 KiB).
// The reader refuses larger numbers. Therefore no sum of a gap and a length can wrap.
#include "common/page_runs.h"

#define PAGE_MAX (UINT64_C(1) << 52)

size_t page_runs_size(const struct page_ranges *ranges)
{
    size_t size = 0;
    uint64_t base = 0;
    vec_foreach(ranges, range) {
        size += wire_varint_size(range->start - base) + wire_varint_size(range->end - range->start);
        base = range->end;
    }
    return size;
}

size_t page_runs_write(struct wire_writer *w, const struct page_ranges *ranges, size_t first,
                       uint64_t base, size_t spare)
{
    size_t i = first;
    for (; i < ranges->n && !w->overflow && wire_room(w) >= spare + PAGE_RUN_MAX; i++) {
        const struct page_range *range = &ranges->items[i];
        w->pos = wire_put_varint(w->pos, range->start - base);
        w->pos = wire_put_varint(w->pos, range->end - range->start);
        base = range->end;
    }
    return i - first;
}

int page_runs_read(const void *bytes, size_t size, uint64_t base, struct page_ranges *ranges)
{
    const uint8_t *pos = bytes, *end = size > 0 ? pos + size : pos;
    uint64_t last_end = ranges->n ? ranges->items[ranges->n - 1].end : 0;
    while (pos < end) {
        uint64_t gap, length;
        if (!wire_get_varint(&pos, end, &gap) || !wire_get_varint(&pos, end, &length))
            return -EBADMSG;
        if (base > PAGE_MAX || gap > PAGE_MAX || length > PAGE_MAX || !length ||
            base + gap + length > PAGE_MAX || base + gap < last_end)
            return -EBADMSG;
        int r = page_ranges_append(ranges, base + gap, base + gap + length);
        if (r < 0)
            return r;
        base += gap + length;
        last_end = base;
    }
    return 0;
}
