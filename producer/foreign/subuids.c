// SPDX-License-Identifier: Apache-2.0
//
// Each new connection needs a look-up. Therefore the table stays in memory, sorted.
#include "producer/foreign/subuids.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"

// Lines for 65536 users with 65536 uids each take less, and these are all uids that exist.
#define TABLE_MAX ((size_t)4 << 20)

// Takes the number after the next colon.
static bool take_number(struct span *line, uint64_t *ret)
{
    struct span name;
    if (!span_take_key(line, &name))
        return false;
    struct span number = *line;
    return span_take_u64(&number, ret);
}

static int ranges_take(struct subuid_range_vec *ranges, struct span text)
{
    struct span line;
    int r = 0;
    while (r == 0 && span_take_line(&text, &line)) {
        uint64_t first, n;
        struct span rest = line, owner;
        if (!span_take_key(&line, &owner) || !take_number(&rest, &first) ||
            !take_number(&rest, &n) || first == 0 || first > UINT32_MAX || n == 0)
            continue;
        uint64_t end = n > UINT32_MAX ? (uint64_t)UINT32_MAX + 1 : first + n;
        r = subuid_range_vec_push(ranges, (struct subuid_range){first, end, (uid_t)first, owner});
    }
    return r;
}

static int by_first(const void *a, const void *b)
{
    const struct subuid_range *left = a, *right = b;
    return (left->first > right->first) - (left->first < right->first);
}

static bool has_owner_of(const struct subuid_range *left, const struct subuid_range *right)
{
    size_t size = span_size(left->owner);
    return size == span_size(right->owner) && memcmp(left->owner.pos, right->owner.pos, size) == 0;
}

static int by_owner(const void *a, const void *b)
{
    const struct subuid_range *left = a, *right = b;
    size_t n = span_size(left->owner), n_right = span_size(right->owner);
    int order =
        n != n_right ? (n > n_right) - (n < n_right) : memcmp(left->owner.pos, right->owner.pos, n);
    return order ? order : by_first(a, b);
}

static void owners_number(struct subuid_range_vec *ranges)
{
    qsort(ranges->items, ranges->n, sizeof(*ranges->items), by_owner);
    for (size_t i = 1; i < ranges->n; i++)
        if (has_owner_of(&ranges->items[i - 1], &ranges->items[i]))
            ranges->items[i].number = ranges->items[i - 1].number;
}

// Ranges that overlap become one.
static void ranges_join(struct subuid_range_vec *ranges)
{
    qsort(ranges->items, ranges->n, sizeof(*ranges->items), by_first);
    size_t n = 0;
    vec_foreach(ranges, range) {
        struct subuid_range *last = n ? &ranges->items[n - 1] : NULL;
        if (!last || range->first >= last->end)
            ranges->items[n++] = *range;
        else if (range->end > last->end)
            last->end = range->end;
    }
    ranges->n = n;
}

int subuids_parse(struct subuids *table, struct span text)
{
    subuid_range_vec_clear(&table->ranges);
    int r = ranges_take(&table->ranges, text);
    if (table->ranges.n) {
        owners_number(&table->ranges);
        ranges_join(&table->ranges);
    }
    vec_foreach(&table->ranges, range)
        range->owner = (struct span){0};
    return r;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

void subuids_follow(struct subuids *table, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && is_same_file(&st, &table->of))
        return;
    subuids_done(table);
    CLEANUP(strbuf_done) struct strbuf text = {0};
    CLEANUP(close_fdp) int fd = open_regular(path, TABLE_MAX);
    if (fd >= 0 && fstat(fd, &st) == 0 && fd_read_all(fd, TABLE_MAX, &text) == 0 &&
        subuids_parse(table, span_over(text.text, text.size)) == 0)
        table->of = st;
}

uid_t subuids_number(const struct subuids *table, uid_t uid)
{
    size_t low = 0, high = table->ranges.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct subuid_range *range = &table->ranges.items[middle];
        if (uid >= range->first && uid < range->end)
            return range->number;
        if (uid < range->first)
            high = middle;
        else
            low = middle + 1;
    }
    return uid;
}

void subuids_done(struct subuids *table)
{
    subuid_range_vec_done(&table->ranges);
    *table = (struct subuids){0};
}
