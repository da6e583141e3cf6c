// SPDX-License-Identifier: Apache-2.0
//
// The evidence for a range is an average of its pages, because neighbours were chosen by their own
// value. A list can have a hundred thousand ranges and a zip a million entries: entries are sorted
// once, and each range finds its entry by bisection.
#include "producer/pintool/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/str.h"
#include "common/vec.h"
#include "producer/pintool/choice.h"
#include "producer/pintool/json.h"

VEC_DEFINE(entry_order, const struct zipindex_entry *);

// The evidence for one range.
struct reason {
    uint64_t start, end;                       // bytes
    double n_resident, n_evicted, n_read_back; // of each page, on average
    double reads;
    const char *entry; // the entry that has most of the range; NULL: none
};

struct reasons {
    struct entry_order entries; // owned; entries that have bytes, by their places
    uint64_t bytes;             // of all ranges
    double reads;
};

static int compare_offset(const void *a, const void *b)
{
    const struct zipindex_entry *x = *(const struct zipindex_entry *const *)a;
    const struct zipindex_entry *y = *(const struct zipindex_entry *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

uint64_t explanation_page_end(const struct explanation *explanation, uint64_t page)
{
    uint64_t end = page * explanation->page_size;
    return end < explanation->size_bytes ? end : explanation->size_bytes;
}

// Entries of an index share no byte, so their ends are in the same order as their starts.
static const char *entry_of(const struct entry_order *entries, uint64_t start, uint64_t end)
{
    size_t low = 0, high = entries->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct zipindex_entry *entry = entries->items[middle];
        if (entry->offset + entry->size_bytes > start)
            high = middle;
        else
            low = middle + 1;
    }
    const char *best = NULL;
    for (uint64_t most = 0; low < entries->n && entries->items[low]->offset < end; low++) {
        const struct zipindex_entry *entry = entries->items[low];
        uint64_t from = entry->offset > start ? entry->offset : start;
        uint64_t after = entry->offset + entry->size_bytes;
        uint64_t n = (after < end ? after : end) - from;
        if (n > most) {
            most = n;
            best = entry->name;
        }
    }
    return best;
}

static struct reason reason_of(const struct explanation *e, const struct reasons *reasons,
                               const struct page_range *range)
{
    struct choice_sum sum = choice_sum(e->evidence, range);
    double pages = (double)(range->end - range->start);
    struct reason reason = {
        .start = range->start * e->page_size,
        .end = explanation_page_end(e, range->end),
        .n_resident = (double)sum.n_resident / pages,
        .n_evicted = (double)sum.n_evicted / pages,
        .n_read_back = (double)sum.n_read_back / pages,
        .reads = sum.reads,
    };
    reason.entry = entry_of(&reasons->entries, reason.start, reason.end);
    return reason;
}

static int reasons_make(const struct explanation *e, struct reasons *ret, struct err *err)
{
    *ret = (struct reasons){0};
    vec_foreach(&e->zip->entries, entry) {
        if (!entry->size_bytes)
            continue;
        if (entry_order_push(&ret->entries, entry) < 0) {
            entry_order_done(&ret->entries);
            return err_errno(err, -ENOMEM, "%s", e->path);
        }
    }
    if (ret->entries.n)
        qsort(ret->entries.items, ret->entries.n, sizeof(*ret->entries.items), compare_offset);
    vec_foreach(e->chosen, range) {
        ret->reads += choice_sum(e->evidence, range).reads;
        ret->bytes += explanation_page_end(e, range->end) - range->start * e->page_size;
    }
    return 0;
}

static void print_ranges(const struct explanation *e, const struct reasons *reasons)
{
    puts("suggested ranges");
    vec_foreach(e->chosen, range) {
        struct reason reason = reason_of(e, reasons, range);
        char name[256] = "-";
        if (reason.entry)
            str_printable(name, sizeof(name), reason.entry, strlen(reason.entry));
        printf("file_offset=%" PRIu64 " total_bytes=%" PRIu64 " times_resident=%.1f"
               " times_evicted=%.1f times_read_back=%.1f reads=%.1f entry=%s\n",
               reason.start, reason.end - reason.start, reason.n_resident, reason.n_evicted,
               reason.n_read_back, reason.reads, name);
    }
}

int explanation_prepare(struct explanation *e, struct err *err)
{
    e->reasons = memory_calloc(1, sizeof(*e->reasons));
    return e->reasons ? reasons_make(e, e->reasons, err) : err_errno(err, -ENOMEM, "%s", e->path);
}

void explanation_done(struct explanation *e)
{
    if (e->reasons)
        entry_order_done(&e->reasons->entries);
    free(e->reasons);
    e->reasons = NULL;
}

void explanation_print(const struct explanation *e, bool ranges)
{
    if (ranges)
        print_ranges(e, e->reasons);
    printf("samples=%" PRIu64 " changes=%" PRIu64 " events=%" PRIu64 "\n", e->sources->n_samples,
           e->sources->n_changes, e->sources->n_events);
    printf("ranges=%zu bytes=%" PRIu64 " reads=%.0f of=%.0f\n", e->chosen->n, e->reasons->bytes,
           e->reasons->reads, e->evidence->n_reads);
}

static void put_range(struct json *json, const struct reason *reason)
{
    json_object_begin(json, NULL);
    json_u64(json, "file_offset", reason->start);
    json_u64(json, "bytes", reason->end - reason->start);
    json_double(json, "times_resident", reason->n_resident);
    json_double(json, "times_evicted", reason->n_evicted);
    json_double(json, "times_read_back", reason->n_read_back);
    json_double(json, "reads", reason->reads);
    json_text(json, "entry", reason->entry);
    json_object_end(json);
}

void explanation_print_json(const struct explanation *e)
{
    struct json json = {.out = stdout};
    json_object_begin(&json, NULL);
    json_text(&json, "path", e->path);
    json_text(&json, "pinlist", e->pinlist_path);
    json_u64(&json, "samples", e->sources->n_samples);
    json_u64(&json, "changes", e->sources->n_changes);
    json_u64(&json, "events", e->sources->n_events);
    json_u64(&json, "total_bytes", e->reasons->bytes);
    json_double(&json, "reads", e->reasons->reads);
    json_double(&json, "reads_in_all", e->evidence->n_reads);
    json_array_begin(&json, "ranges");
    vec_foreach(e->chosen, range) {
        struct reason reason = reason_of(e, e->reasons, range);
        put_range(&json, &reason);
    }
    json_array_end(&json);
    json_object_end(&json);
}
