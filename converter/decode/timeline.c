// SPDX-License-Identifier: Apache-2.0
//
// A trace is not in order of time. Buffers are read one after the other, each processor has its own
// ftrace bundles, and packets of one sequence may be late. No sorting window is wide enough: a ring
// buffer that is read at the end comes completely before the next buffer. Therefore items are
// collected for the whole trace, small and without their contents: one for each packet, at most
// three for each ftrace bundle of hundreds of events. Items are sorted in pieces of fixed size. The
// pieces are in a temporary file, so a trace of many small packets takes no more memory. A heap
// merges the pieces during the walk. Each piece has a copy of its next item, so that a piece whose
// time has not come takes no memory: the kernel maps many bytes around a byte that is read. Another
// heap merges runs that overlap in time, about one for each processor.
//
// Equal times are ordered as in Perfetto: by queue (packets before ftrace, lower processors first),
// then by place in the file. Bundles that were made of text have one queue.
#include "converter/decode/timeline.h"
#include "common/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_ITEMS 32768

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
    int queue = a->in_file_order ? 1 : a->queue, other = b->in_file_order ? 1 : b->queue;
    if (queue != other)
        return queue < other ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static void items_sort(struct timeline_item_vec *items)
{
    size_t i = 1;
    while (i < items->n && item_compare(&items->items[i - 1], &items->items[i]) < 0)
        i++;
    if (i < items->n)
        qsort(items->items, items->n, sizeof(*items->items), item_compare);
}

static int piece_push(struct timeline *timeline, const struct timeline_item *items, size_t n)
{
    struct timeline_piece piece = {.first = timeline->items.items[0], items, items + n};
    return timeline_piece_vec_push(&timeline->pieces, piece);
}

// Moves the pieces to the new address of the file.
static void pieces_move(struct timeline *timeline, const uint8_t *before)
{
    const uint8_t *now = timeline->scratch.bytes;
    vec_foreach(&timeline->pieces, piece) {
        size_t n = (size_t)(piece->end - piece->next);
        piece->next = (const void *)(now + ((const uint8_t *)piece->next - before));
        piece->end = piece->next + n;
    }
}

// Moves the items into the file as a sorted piece.
static int piece_put_away(struct timeline *timeline)
{
    size_t size = timeline->items.n * sizeof(*timeline->items.items);
    size_t offset = (timeline->n_items - timeline->items.n) * sizeof(*timeline->items.items);
    const uint8_t *before = timeline->scratch.bytes;
    int r = scratch_reserve(&timeline->scratch, timeline->folder, offset + size);
    if (r < 0)
        return r;
    if (timeline->scratch.bytes != before)
        pieces_move(timeline, before);
    items_sort(&timeline->items);
    memcpy(timeline->scratch.bytes + offset, timeline->items.items, size);
    r = piece_push(timeline, (const void *)(timeline->scratch.bytes + offset), timeline->items.n);
    timeline_item_vec_clear(&timeline->items);
    return r;
}

int timeline_add(struct timeline *timeline, struct timeline_item item)
{
    if (timeline->n_items >= UINT32_MAX)
        return -EFBIG;
    int r = timeline->items.n == PIECE_ITEMS ? piece_put_away(timeline) : 0;
    if (r == 0) {
        item.order = (uint32_t)timeline->n_items++;
        r = timeline_item_vec_push(&timeline->items, item);
    }
    return r;
}

static void pieces_sift_down(struct timeline_piece_vec *heap, size_t i)
{
    for (;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < heap->n; child++)
            if (item_compare(&heap->items[child].first, &heap->items[least].first) < 0)
                least = child;
        if (least == i)
            return;
        struct timeline_piece moved = heap->items[i];
        heap->items[i] = heap->items[least];
        heap->items[least] = moved;
        i = least;
    }
}

int timeline_sort(struct timeline *timeline)
{
    items_sort(&timeline->items);
    int r = timeline->items.n ? piece_push(timeline, timeline->items.items, timeline->items.n) : 0;
    for (size_t i = timeline->pieces.n; i-- > 0 && r == 0;)
        pieces_sift_down(&timeline->pieces, i);
    return r;
}

// Moves the first piece to its next item.
static void pieces_advance(struct timeline *timeline)
{
    struct timeline_piece_vec *heap = &timeline->pieces;
    timeline->n_begun++;
    if (++heap->items[0].next == heap->items[0].end)
        heap->items[0] = heap->items[--heap->n];
    else
        heap->items[0].first = *heap->items[0].next;
    if (heap->n)
        pieces_sift_down(heap, 0);
}

void timeline_forget(const struct timeline *timeline)
{
    scratch_forget(&timeline->scratch);
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
    struct open_run *open = memory_calloc(1, sizeof(*open));
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

// Moves the run at the top to its next record.
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
    // The record that was returned last is valid until this call.
    if (timeline->used_top)
        heap_advance(timeline);
    timeline->used_top = false;
    for (;;) {
        const struct timeline_item *next =
            timeline->pieces.n ? timeline->pieces.items[0].next : NULL;
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
        pieces_advance(timeline);
        if (next->kind >= TIMELINE_PACKET) {
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
    timeline_piece_vec_done(&timeline->pieces);
    scratch_done(&timeline->scratch);
    *timeline = (struct timeline){0};
}
