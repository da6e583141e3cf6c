// SPDX-License-Identifier: Apache-2.0
//
// All arithmetic has 64 bits. The result is narrowed only at the end, and only if the result fits:
// a range that wraps at 4 GiB would pin the wrong pages. A list with a cut last pair is refused as
// a whole, because the list is damaged.
#include "common/pinlist.h"

#include <inttypes.h>

#include "common/cleanup.h"

static uint32_t read_be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

int pinlist_parse(const void *bytes, size_t size, const char *name, struct pinlist *ret,
                  struct err *err)
{
    const uint8_t *at = bytes;
    pinlist_clear(ret);
    if (size % PINLIST_PAIR_BYTES)
        return err_set(err, -EBADMSG,
                       "%s: not a pinlist: %zu bytes are not a whole number of pairs", name, size);
    size_t n = size / PINLIST_PAIR_BYTES;
    int r = pinlist_reserve(ret, n);
    if (r < 0)
        return err_errno(err, r, "%s", name);
    for (; n; n--, at += PINLIST_PAIR_BYTES)
        ret->items[ret->n++] =
            (struct pinlist_range){.offset = read_be32(at), .length = read_be32(at + 4)};
    return 0;
}

static int align_and_merge(const struct page_ranges *ranges, uint64_t page_size,
                           struct page_ranges *ret)
{
    int r = page_ranges_reserve(ret, ranges->n);
    vec_foreach(ranges, range) {
        if (r == 0 && range->start < range->end)
            r = page_ranges_push(ret, (struct page_range){.start = range->start & ~(page_size - 1),
                                                          .end = range->end});
    }
    page_ranges_normalize(ret);
    return r;
}

int pinlist_from_ranges(const struct page_ranges *ranges, size_t page_size, uint64_t quota_bytes,
                        struct pinlist *ret, struct err *err)
{
    CLEANUP(page_ranges_done) struct page_ranges merged = {0};
    pinlist_clear(ret);
    int r = align_and_merge(ranges, page_size, &merged);
    if (r < 0)
        return err_errno(err, r, "a pinlist of %zu ranges", ranges->n);
    vec_foreach(&merged, range) {
        if (!quota_bytes)
            break;
        uint64_t length = range->end - range->start;
        if (length > quota_bytes)
            length = quota_bytes;
        if (range->start >= PINLIST_END_MAX || length > PINLIST_END_MAX - range->start ||
            length > UINT32_MAX) {
            pinlist_clear(ret);
            return err_set(err, -EFBIG,
                           "bytes %" PRIu64 " to %" PRIu64
                           " are beyond what a pinlist can name: its numbers have 32 bits",
                           range->start, range->start + length);
        }
        quota_bytes -= length;
        r = pinlist_push(ret, (struct pinlist_range){.offset = (uint32_t)range->start,
                                                     .length = (uint32_t)length});
        if (r < 0)
            return err_errno(err, r, "a pinlist of %zu ranges", merged.n);
    }
    return 0;
}

int pinlist_to_ranges(const struct pinlist *list, struct page_ranges *ret)
{
    page_ranges_clear(ret);
    int r = page_ranges_reserve(ret, list->n);
    if (r < 0)
        return r;
    vec_foreach(list, range) {
        if (range->length)
            ret->items[ret->n++] = (struct page_range){
                .start = range->offset, .end = (uint64_t)range->offset + range->length};
    }
    page_ranges_normalize(ret);
    return 0;
}

uint64_t pinlist_total_bytes(const struct pinlist *list)
{
    uint64_t total = 0;
    vec_foreach(list, range)
        total += range->length;
    return total;
}

static void write_be32(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

void pinlist_encode(const struct pinlist *list, struct strbuf *ret)
{
    vec_foreach(list, range) {
        uint8_t pair[PINLIST_PAIR_BYTES];
        write_be32(pair, range->offset);
        write_be32(pair + 4, range->length);
        strbuf_add(ret, pair, sizeof(pair));
    }
}
