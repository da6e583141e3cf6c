// SPDX-License-Identifier: Apache-2.0
//
// A trace is not in order of time. Buffers are read out one behind the other, each processor has
// its own ftrace bundles, and packets of one sequence may be late. No window is surely wide enough:
// a ring buffer that is read at the end holds everything before the next buffer begins. So items
// are collected for the whole trace, small and without their contents: one per packet, at most
// three per ftrace bundle of hundreds of events. Runs that overlap in time are merged by a heap,
// which holds about one run per processor.
//
// Equal times are ordered by queue (packets before ftrace, lower processors first), then by place
// in the file: the order in which Perfetto handles them.
#include "converter/decode/timeline.h"

#include <errno.h>
#include <stdlib.h>

struct open_run {
    struct timeline_item item; // ts: of `record`
    struct run_record record;
    struct run *run; // owned
};

static int item_compare(const void *left, const void *right)
{
    const struct timeline_item *a = left, *b = right;
    if (a->ts != b->ts)
        return a->ts < b->ts ? -1 : 1;
    if (a->queue != b->queue)
        return a->queue < b->queue ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

int timeline_add(struct timeline *timeline, struct timeline_item item)
{
    if (timeline->items.n >= UINT32_MAX)
        return -ENOMEM;
    item.order = (uint32_t)timeline->items.n;
    return timeline_item_vec_push(&timeline->items, item);
}

void timeline_sort(struct timeline *timeline)
{
    if (timeline->items.n)
        qsort(timeline->items.items, timeline->items.n, sizeof(*timeline->items.items),
              item_compare);
}

static struct open_run *open_run_free(struct open_run *open)
{
    if (open) {
        run_free(open->run);
        free(open);
    }
    return NULL;
}

// Reads the next record that has a time; false at the end of the run.
static bool open_run_advance(struct timeline *timeline, struct open_run *open)
{
    while (run_next(open->run, &open->record)) {
        int64_t ts;
        if (!timeline->convert(timeline->userdata, &open->item, open->record.ts, &ts))
            continue;
        open->item.ts = ts;
        return true;
    }
    return false;
}

static void heap_sift_down(struct open_run_vec *heap, size_t i)
{
    for (;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < heap->n; child++)
            if (item_compare(&heap->items[child]->item, &heap->items[least]->item) < 0)
                least = child;
        if (least == i)
            return;
        struct open_run *moved = heap->items[i];
        heap->items[i] = heap->items[least];
        heap->items[least] = moved;
        i = least;
    }
}

static int heap_push(struct open_run_vec *heap, struct open_run *open)
{
    int r = open_run_vec_push(heap, open);
    if (r < 0)
        return r;
    for (size_t i = heap->n - 1; i > 0;) {
        size_t parent = (i - 1) / 2;
        if (item_compare(&heap->items[parent]->item, &open->item) <= 0)
            break;
        heap->items[i] = heap->items[parent];
        heap->items[parent] = open;
        i = parent;
    }
    return 0;
}

static int run_begin(struct timeline *timeline, const struct timeline_item *item)
{
    struct open_run *open = calloc(1, sizeof(*open));
    if (!open)
        return -ENOMEM;
    open->item = *item;
    open->run = run_open(wire_reader_over(item->data, item->size), item->kind, item->sorted);
    if (!open->run) {
        open_run_free(open);
        return -ENOMEM;
    }
    if (!open_run_advance(timeline, open)) {
        open_run_free(open);
        return 0;
    }
    int r = heap_push(&timeline->runs, open);
    if (r < 0)
        open_run_free(open);
    return r;
}

// The run at the top was used: on to its next record.
static void heap_advance(struct timeline *timeline)
{
    struct open_run_vec *heap = &timeline->runs;
    if (!open_run_advance(timeline, heap->items[0])) {
        open_run_free(heap->items[0]);
        heap->items[0] = heap->items[--heap->n];
    }
    if (heap->n)
        heap_sift_down(heap, 0);
}

int timeline_next(struct timeline *timeline, const struct timeline_item **ret_item,
                  const struct run_record **ret_record, int64_t *ret_ts)
{
    // The record that was handed out last stays in place until now.
    if (timeline->used_top)
        heap_advance(timeline);
    timeline->used_top = false;
    for (;;) {
        const struct timeline_item *next =
            timeline->next < timeline->items.n ? &timeline->items.items[timeline->next] : NULL;
        const struct open_run *top = timeline->runs.n ? timeline->runs.items[0] : NULL;
        if (!next && !top)
            return 0;
        if (!next || (top && item_compare(&top->item, next) < 0)) {
            timeline->used_top = true;
            *ret_item = &top->item;
            *ret_record = &top->record;
            *ret_ts = top->item.ts;
            return 1;
        }
        timeline->next++;
        if (next->kind == TIMELINE_PACKET) {
            *ret_item = next;
            *ret_record = NULL;
            *ret_ts = next->ts;
            return 1;
        }
        int r = run_begin(timeline, next);
        if (r < 0)
            return r;
    }
}

void timeline_done(struct timeline *timeline)
{
    vec_foreach(&timeline->runs, open)
        open_run_free(*open);
    open_run_vec_done(&timeline->runs);
    timeline_item_vec_done(&timeline->items);
    *timeline = (struct timeline){0};
}
