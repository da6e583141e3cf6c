// SPDX-License-Identifier: Apache-2.0
//
// All set operations are one linear merge over the run borders of both sides. The result is normal,
// because page_ranges_append() joins runs that touch.
#include "common/ranges.h"

#include <endian.h>
#include <stdlib.h>

int page_ranges_append(struct page_ranges *ranges, uint64_t start, uint64_t end)
{
    if (start >= end)
        return 0;
    if (ranges->n) {
        struct page_range *last = &ranges->items[ranges->n - 1];
        if (start <= last->end) {
            if (end > last->end)
                last->end = end;
            return 0;
        }
    }
    return page_ranges_push(ranges, (struct page_range){.start = start, .end = end});
}

// Gathers the lowest bits of eight bytes, the first byte's bit lowest. The multiplication moves bit
// 8i to bit 56+i. No two of its partial products meet, so nothing carries.
static uint64_t gather_bits(const uint8_t *bytes)
{
    uint64_t eight;
    memcpy(&eight, bytes, sizeof(eight));
    return (le64toh(eight) & UINT64_C(0x0101010101010101)) * UINT64_C(0x0102040810204080) >> 56;
}

static uint64_t gather_word(const uint8_t *bytes, size_t n)
{
    uint8_t padded[64] = {0};
    if (n < 64)
        bytes = memcpy(padded, bytes, n);
    uint64_t word = 0;
    for (size_t i = 0; i < 8; i++)
        word |= gather_bits(bytes + 8 * i) << 8 * i;
    return word;
}

// Run borders are written in their order, starts and ends alternating. No branch distinguishes a
// start from an end: with random holes, the branch would be mispredicted every other time.
_Static_assert(sizeof(struct page_range) == 2 * sizeof(uint64_t), "two borders");

int page_ranges_append_bytes(struct page_ranges *ranges, uint64_t start, const uint8_t *bytes,
                             size_t n)
{
    bool inside = ranges->n && ranges->items[ranges->n - 1].end >= start;
    for (size_t i = 0; i < n; i += 64) {
        size_t used = n - i < 64 ? n - i : 64;
        uint64_t word = gather_word(bytes + i, used);
        uint64_t changes = word ^ (word << 1 | inside);
        if (changes) {
            int r = page_ranges_reserve(ranges, ranges->n + 33);
            if (r < 0)
                return r;
            uint64_t *borders = (uint64_t *)ranges->items;
            size_t n_borders = 2 * ranges->n - inside;
            for (; changes; changes &= changes - 1)
                borders[n_borders++] = start + i + (uint64_t)__builtin_ctzll(changes);
            ranges->n = (n_borders + 1) / 2;
        }
        inside = word >> (used - 1) & 1;
        if (inside)
            ranges->items[ranges->n - 1].end = start + i + used;
    }
    return 0;
}

static int compare_start(const void *a, const void *b)
{
    const struct page_range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

void page_ranges_normalize(struct page_ranges *ranges)
{
    size_t n = ranges->n;
    if (!n)
        return;
    qsort(ranges->items, n, sizeof(*ranges->items), compare_start);
    ranges->n = 0;
    for (size_t i = 0; i < n; i++) // never grows: each write is at or before i
        page_ranges_append(ranges, ranges->items[i].start, ranges->items[i].end);
}

uint64_t page_ranges_count(const struct page_ranges *ranges)
{
    uint64_t n = 0;
    vec_foreach(ranges, range)
        n += range->end - range->start;
    return n;
}

bool page_ranges_equal(const struct page_ranges *a, const struct page_ranges *b)
{
    return a->n == b->n && (!a->n || memcmp(a->items, b->items, a->n * sizeof(*a->items)) == 0);
}

// Returns border `i` of the runs: border 2i is the start of run i, border 2i+1 its end; UINT64_MAX
// after the last border.
static uint64_t border(const struct page_ranges *ranges, size_t i)
{
    if (i / 2 >= ranges->n)
        return UINT64_MAX;
    const struct page_range *range = &ranges->items[i / 2];
    return i % 2 ? range->end : range->start;
}

// Appends to *ret all stretches with a membership in the bit set `wanted` (bit 0: in neither set,
// 1: in a only, 2: in b only, 3: in both).
static int combine(const struct page_ranges *a, const struct page_ranges *b, unsigned wanted,
                   struct page_ranges *ret)
{
    page_ranges_clear(ret);
    size_t i = 0, j = 0;
    uint64_t from = 0;
    while (i < a->n * 2 || j < b->n * 2) {
        uint64_t next_a = border(a, i), next_b = border(b, j);
        uint64_t to = next_a < next_b ? next_a : next_b;
        unsigned membership = (i & 1) | (j & 1) << 1;
        if (wanted & 1u << membership) {
            int r = page_ranges_append(ret, from, to);
            if (r < 0)
                return r;
        }
        i += next_a == to;
        j += next_b == to;
        from = to;
    }
    return 0;
}

int page_ranges_xor(const struct page_ranges *a, const struct page_ranges *b,
                    struct page_ranges *ret)
{
    return combine(a, b, 1u << 1 | 1u << 2, ret);
}

int page_ranges_and(const struct page_ranges *a, const struct page_ranges *b,
                    struct page_ranges *ret)
{
    return combine(a, b, 1u << 3, ret);
}
