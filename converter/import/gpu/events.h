// SPDX-License-Identifier: Apache-2.0
//
// Events of the GPUs of one machine, which flows connect slices by.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"

enum gpu_event_end {
    GPU_EVENT_SUBMITTED, // by a thread; the last counts
    GPU_EVENT_RAN,       // on a GPU
    GPU_EVENT_AWAITED,   // by a thread; the last counts
    GPU_EVENT_FOLLOWED,  // by what ran on a GPU
};

struct gpu_event {
    int64_t submitted, awaited; // slices; -1: none
    int64_t ran, followed;      // lists in slices, the last first; -1: empty
};
VEC_DEFINE(gpu_event_vec, struct gpu_event);

struct gpu_event_slice {
    int64_t slice, next;
    uint32_t n; // in the list from here on
};
VEC_DEFINE(gpu_event_slice_vec, struct gpu_event_slice);

// All zero is empty.
struct gpu_events {
    bool is_used;           // the trace tells what a GPU ran
    struct map64 by_number; // -> index in items
    struct gpu_event_vec items;
    struct gpu_event_slice_vec slices;
};

struct import;
struct importer;

extern const struct importer importer_render_stages; // has the state

// Those of the machine at hand.
struct gpu_events *gpu_events_of(const struct import *im);

// The slice is an end of the event of that number on the machine at hand.
void gpu_event_add(struct import *im, uint64_t number, enum gpu_event_end end, int64_t slice);

void gpu_events_done(struct gpu_events *events);
