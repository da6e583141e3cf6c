// SPDX-License-Identifier: Apache-2.0
//
// Kernels may have bugs: pages with zeroed tails or wrong lengths were seen. Each length is
// compared with the rest of the page before its use. Damage ends the page, not the recording.
//
// A record that the kernel discarded becomes padding, and its time delta stays valid. The deltas of
// all records are summed, whatever their type.
#include "producer/sources/ftrace/page.h"

#include <string.h>

#define COMMIT_LOST        (UINT32_C(1) << 31)
#define COMMIT_LOST_STORED (UINT32_C(1) << 30)
#define COMMIT_SIZE_MASK   ((UINT32_C(1) << 27) - 1)

#define DELTA_BITS  27
#define STAMP_BITS  (DELTA_BITS + 32)
#define STAMP_RANGE (UINT64_C(1) << STAMP_BITS)

enum {
    TYPE_LENGTH_IN_ARRAY = 0,
    TYPE_PADDING = 29,
    TYPE_TIME_EXTEND = 30,
    TYPE_TIME_STAMP = 31,
};

static inline uint32_t load_u32(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, sizeof(value));
    return value;
}

static inline uint64_t load_u64(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, sizeof(value));
    return value;
}

static inline size_t bytes_left(const struct page_reader *page)
{
    return (size_t)(page->end - page->pos);
}

static inline bool take_u32(struct page_reader *page, uint32_t *ret)
{
    if (bytes_left(page) < sizeof(*ret))
        return false;
    *ret = load_u32(page->pos);
    page->pos += sizeof(*ret);
    return true;
}

static bool fail(struct page_reader *page, enum page_status status)
{
    page->status = status;
    page->pos = page->end;
    return false;
}

size_t page_used(const void *bytes)
{
    return load_u32((const uint8_t *)bytes + 8) & COMMIT_SIZE_MASK;
}

bool page_open(struct page_reader *page, const struct page_layout *layout, const void *bytes,
               size_t size)
{
    const uint8_t *start = bytes;
    *page = (struct page_reader){.pos = start, .end = start, .status = PAGE_OK};
    if (size < layout->data_offset || layout->data_offset < 8 + sizeof(uint32_t))
        return fail(page, PAGE_BAD_HEADER);
    page->timestamp = load_u64(start);
    uint32_t commit = load_u32(start + 8);
    size_t room = size - layout->data_offset, used = commit & COMMIT_SIZE_MASK;
    if (!used || used > room)
        return fail(page, PAGE_BAD_HEADER);
    page->pos = start + layout->data_offset;
    page->end = page->pos + used;
    page->lost = commit & COMMIT_LOST;
    if (page->lost && (commit & COMMIT_LOST_STORED) && room - used >= layout->commit_size)
        page->n_lost = layout->commit_size == 8 ? load_u64(page->end) : load_u32(page->end);
    return true;
}

// Absolute stamps have 59 bits; the upper bits come from the previous time. While these are zero, a
// stamp below the previous time means a clock that stepped back, not an overflow.
static uint64_t complete_stamp(uint64_t stamp, uint64_t before)
{
    uint64_t high = before & ~(STAMP_RANGE - 1);
    stamp |= high;
    return high && stamp < before ? stamp + STAMP_RANGE : stamp;
}

bool page_next_slow(struct page_reader *page, struct page_record *ret)
{
    while (page->pos < page->end) {
        uint32_t header, word;
        if (!take_u32(page, &header))
            return fail(page, PAGE_SHORT_EVENT_HEADER);
        uint32_t type = header & 31, delta = header >> 5, size = type * 4;
        uint64_t before = page->timestamp;
        page->timestamp += delta;
        switch (type) {
        case TYPE_PADDING:
            if (!delta)
                return fail(page, PAGE_NULL_PADDING);
            if (!take_u32(page, &word))
                return fail(page, PAGE_SHORT_PADDING_LENGTH);
            if (word < 4 || word - 4 > bytes_left(page))
                return fail(page, PAGE_BAD_PADDING_LENGTH);
            page->pos += word - 4;
            continue;
        case TYPE_TIME_EXTEND:
            if (!take_u32(page, &word))
                return fail(page, PAGE_SHORT_TIME_EXTEND);
            page->timestamp += (uint64_t)word << DELTA_BITS;
            continue;
        case TYPE_TIME_STAMP:
            if (!take_u32(page, &word))
                return fail(page, PAGE_SHORT_TIME_STAMP);
            page->timestamp = complete_stamp(((uint64_t)word << DELTA_BITS) + delta, before);
            continue;
        case TYPE_LENGTH_IN_ARRAY:
            if (!take_u32(page, &word))
                return fail(page, PAGE_SHORT_DATA_LENGTH);
            if (word < 4)
                return fail(page, word ? PAGE_BAD_DATA_LENGTH : PAGE_ZERO_DATA_LENGTH);
            size = word - 4;
            break;
        }
        if (size > bytes_left(page))
            return fail(page, PAGE_END_OVERFLOW);
        if (size < 2)
            return fail(page, PAGE_SHORT_EVENT_ID);
        ret->data = page->pos;
        ret->size = size;
        memcpy(&ret->id, page->pos, sizeof(ret->id));
        ret->timestamp = page->timestamp;
        page->pos += size;
        return true;
    }
    return false;
}
