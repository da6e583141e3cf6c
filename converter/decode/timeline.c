// SPDX-License-Identifier: Apache-2.0
//
// A trace is not in order of time. Buffers are read one after the other, each processor has its own
// ftrace bundles, and packets of one sequence may be late. No sorting window is wide enough: a ring
// buffer that is read at the end comes completely before the next buffer. Therefore items are
// collected for the whole trace, small and without their contents: one for each packet, at most
// three for each ftrace bundle of hundreds of events. Items are sorted in pieces of fixed size. The
// pieces are in a temporary file, so a trace of many small packets takes no more memory. A heap
// merges the pieces during the walk. Each piece has a copy of its next item, so a piece takes no
// memory until the merge reaches its items. A read of the item itself would map many bytes around
// the item. Runs that overlap in time wait in a queue, and another heap merges the queues.
//
// Items of equal time have the order of Perfetto. The queue of the last event goes on as long as no
// other queue has an earlier event. Further items are in the order of queues (packets before
// events, then the queue that the file has first), then in the order of the file. Each kind of
// events of a processor has a queue. All bundles that were made of text have one queue.
#include "converter/decode/timeline.h"
#include "common/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_ITEMS 32768

_Static_assert((TIMELINE_ETW + 1) * TIMELINE_CPUS < TIMELINE_AFTER_EVENTS,
               "each queue has a number");

struct open_run {
    struct timeline_item item; // `ts` is the time of `record`
    struct run_record record;
    struct run *run; // owned
};

// Open runs, at least one unless the queue is idle.
struct run_queue {
    struct open_run_vec runs; // owned, a heap by time of their next record
    size_t place;             // index in the heap of queues
};

static uint16_t queue_of_item(const struct timeline_item *item)
{
    return item->in_file_order ? 1 : item->queue;
}

static int item_compare(const void *left, const void *right)
{
    const struct timeline_item *a = left, *b = right;
    if (a->ts != b->ts)
        return a->ts < b->ts ? -1 : 1;
    uint16_t queue = queue_of_item(a), other = queue_of_item(b);
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

// Sorts the items and moves the items into the file as a piece.
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

int timeline_queue(struct timeline *timeline, uint8_t kind, uint32_t cpu, uint16_t *ret)
{
    size_t key = (size_t)kind * TIMELINE_CPUS + cpu;
    int r = timeline->keys.n ? 0 : queue_number_vec_push(&timeline->keys, 0);
    while (r == 0 && timeline->numbers.n <= key)
        r = queue_number_vec_push(&timeline->numbers, 0);
    if (r == 0 && !timeline->numbers.items[key]) {
        timeline->numbers.items[key] = (uint16_t)timeline->keys.n;
        r = queue_number_vec_push(&timeline->keys, (uint16_t)key);
    }
    if (r == 0)
        *ret = timeline->numbers.items[key];
    return r;
}

uint32_t timeline_cpu(const struct timeline *timeline, uint16_t queue)
{
    return timeline->keys.items[queue] % TIMELINE_CPUS;
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

// Moves the first piece of the heap to its next item.
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

static const struct timeline_item *queue_head(const struct run_queue *queue)
{
    return &queue->runs.items[0]->item;
}

static void queue_place(struct run_queue_vec *heap, size_t i, struct run_queue *queue)
{
    heap->items[i] = queue;
    queue->place = i;
}

static void queues_sift_down(struct run_queue_vec *heap, size_t i)
{
    for (;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < heap->n; child++)
            if (item_compare(queue_head(heap->items[child]), queue_head(heap->items[least])) < 0)
                least = child;
        if (least == i)
            return;
        struct run_queue *moved = heap->items[i];
        queue_place(heap, i, heap->items[least]);
        queue_place(heap, least, moved);
        i = least;
    }
}

static void queues_sift_up(struct run_queue_vec *heap, size_t i)
{
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        struct run_queue *queue = heap->items[i];
        if (item_compare(queue_head(heap->items[parent]), queue_head(queue)) <= 0)
            return;
        queue_place(heap, i, heap->items[parent]);
        queue_place(heap, parent, queue);
        i = parent;
    }
}

static int queue_wait(struct timeline *timeline, struct run_queue *queue)
{
    queue->place = timeline->waiting.n;
    int r = run_queue_vec_push(&timeline->waiting, queue);
    if (r == 0)
        queues_sift_up(&timeline->waiting, queue->place);
    return r;
}

// Puts the current queue back into the heap, so the next event may come from any queue.
static int current_leave(struct timeline *timeline)
{
    struct run_queue *queue = timeline->current;
    timeline->current = NULL;
    return queue ? queue_wait(timeline, queue) : 0;
}

// Makes the queue with the earliest event the current queue.
static int current_choose(struct timeline *timeline)
{
    struct run_queue_vec *heap = &timeline->waiting;
    struct run_queue *first = heap->items[0];
    queue_place(heap, 0, heap->items[--heap->n]);
    if (heap->n)
        queues_sift_down(heap, 0);
    int r = current_leave(timeline);
    timeline->current = first;
    return r;
}

static struct run_queue *queue_of(struct timeline *timeline, uint16_t number)
{
    struct run_queue_vec *all = &timeline->queues;
    while (all->n <= number)
        if (run_queue_vec_push(all, NULL) < 0)
            return NULL;
    if (!all->items[number])
        all->items[number] = memory_calloc(1, sizeof(struct run_queue));
    return all->items[number];
}

static int queue_push(struct timeline *timeline, struct open_run *open)
{
    struct run_queue *queue = queue_of(timeline, queue_of_item(&open->item));
    if (!queue)
        return -ENOMEM;
    bool was_idle = queue->runs.n == 0;
    int r = heap_push(&queue->runs, open);
    if (r < 0 || queue == timeline->current)
        return r;
    if (!was_idle) {
        queues_sift_up(&timeline->waiting, queue->place);
        return 0;
    }
    r = queue_wait(timeline, queue);
    if (r < 0)
        open_run_vec_clear(&queue->runs);
    return r;
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
    int r = queue_push(timeline, open);
    if (r < 0)
        open_run_free(open);
    return r;
}

// Moves the current queue to its next record.
static void current_advance(struct timeline *timeline)
{
    struct open_run_vec *heap = &timeline->current->runs;
    if (!open_run_advance(timeline, heap->items[0])) {
        open_run_free(heap->items[0]);
        heap->items[0] = heap->items[--heap->n];
    }
    if (heap->n)
        heap_sift_down(heap, 0);
    else
        timeline->current = NULL;
}

// Returns true if `item` comes before the next event of the current queue.
static bool item_precedes(const struct timeline *timeline, const struct timeline_item *item)
{
    if (!item || !timeline->current)
        return item;
    const struct timeline_item *now = queue_head(timeline->current);
    return queue_of_item(item) == queue_of_item(now) ? item_compare(item, now) < 0
                                                     : item->ts < now->ts;
}

int timeline_next(struct timeline *timeline, const struct timeline_item **ret_item,
                  const struct run_record **ret_record, int64_t *ret_ts)
{
    int r = 0;
    // The queue advances only now, because the last returned record is valid until this call.
    if (timeline->used_current)
        current_advance(timeline);
    timeline->used_current = false;
    while (r == 0) {
        const struct timeline_item *next =
            timeline->pieces.n ? timeline->pieces.items[0].next : NULL;
        const struct timeline_item *waiting =
            timeline->waiting.n ? queue_head(timeline->waiting.items[0]) : NULL;
        bool is_next = item_precedes(timeline, next);
        if (!is_next && !item_precedes(timeline, waiting)) {
            if (!timeline->current)
                return 0;
            const struct open_run *open = timeline->current->runs.items[0];
            timeline->used_current = true;
            *ret_item = &open->item;
            *ret_record = &open->record;
            *ret_ts = open->item.ts;
            return 1;
        }
        if (!is_next || (waiting && item_compare(waiting, next) < 0)) {
            r = current_choose(timeline);
            continue;
        }
        pieces_advance(timeline);
        if (next->kind < TIMELINE_PACKET) {
            r = run_begin(timeline, next);
            continue;
        }
        r = current_leave(timeline);
        *ret_item = next;
        *ret_record = NULL;
        *ret_ts = next->ts;
        if (r == 0)
            return 1;
    }
    return r;
}

static void queue_free(struct run_queue *queue)
{
    vec_foreach(&queue->runs, open)
        open_run_free(*open);
    open_run_vec_done(&queue->runs);
    free(queue);
}

void timeline_done(struct timeline *timeline)
{
    vec_foreach(&timeline->queues, queue)
        if (*queue)
            queue_free(*queue);
    run_queue_vec_done(&timeline->queues);
    queue_number_vec_done(&timeline->numbers);
    queue_number_vec_done(&timeline->keys);
    run_queue_vec_done(&timeline->waiting);
    timeline_item_vec_done(&timeline->items);
    timeline_piece_vec_done(&timeline->pieces);
    scratch_done(&timeline->scratch);
    *timeline = (struct timeline){0};
}
