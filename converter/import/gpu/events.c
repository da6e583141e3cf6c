// SPDX-License-Identifier: Apache-2.0
//
// The number of an event connects the slices of GPU work, of its submission and of its waiters, in
// any order. A flow is written as soon as both of its slices are known.
#include "converter/import/gpu/gpu.h"

#define SLICES_MAX 64 // slices of an event and kind; limits the number of pairs

static struct gpu_event *event_get(struct import *im, struct gpu_events *events, uint64_t number)
{
    bool is_new;
    const uint64_t *index =
        import_map_get(im, &events->by_number, number, events->items.n, &is_new);
    struct gpu_event made = {.submitted = -1, .awaited = -1, .ran = -1, .followed = -1};
    if (index && is_new)
        import_fail(im, gpu_event_vec_push(&events->items, made));
    return import_failed(im) ? NULL : &events->items.items[*index];
}

static void flow_add(struct import *im, int64_t from, int64_t to)
{
    if (from != to)
        flow_row_write(im, from, to);
}

// Prepends the slice to a list, unless the list is full. Returns 0 or -ENOMEM.
static int list_add(struct gpu_events *events, int64_t *head, int64_t slice)
{
    uint32_t n = *head < 0 ? 0 : events->slices.items[*head].n;
    if (n == SLICES_MAX)
        return 0;
    struct gpu_event_slice item = {.slice = slice, .next = *head, .n = n + 1};
    int r = gpu_event_slice_vec_push(&events->slices, item);
    if (r == 0)
        *head = (int64_t)events->slices.n - 1;
    return r;
}

void gpu_event_add(struct import *im, uint64_t number, enum gpu_event_end end, int64_t slice)
{
    struct gpu_events *events = gpu_events_of(im);
    struct gpu_event *event = event_get(im, events, number);
    if (!event)
        return;
    const struct gpu_event_slice *slices = events->slices.items;
    bool is_before = end == GPU_EVENT_SUBMITTED;
    if (end == GPU_EVENT_RAN) {
        flow_add(im, event->submitted, slice);
        flow_add(im, slice, event->awaited);
        for (int64_t i = event->followed; i >= 0; i = slices[i].next)
            flow_add(im, slice, slices[i].slice);
        import_fail(im, list_add(events, &event->ran, slice));
        return;
    }
    for (int64_t i = event->ran; i >= 0; i = slices[i].next)
        flow_add(im, is_before ? slice : slices[i].slice, is_before ? slices[i].slice : slice);
    if (end == GPU_EVENT_FOLLOWED) {
        import_fail(im, list_add(events, &event->followed, slice));
        return;
    }
    *(is_before ? &event->submitted : &event->awaited) = slice;
}

void gpu_events_done(struct gpu_events *events)
{
    map64_done(&events->by_number);
    gpu_event_vec_done(&events->items);
    gpu_event_slice_vec_done(&events->slices);
}
