// SPDX-License-Identifier: Apache-2.0
//
// Shared by importers of GPU events.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/import/import.h"

// Bytes kept of a name or description: each event of a GPU repeats the texts of the objects that it
// refers to.
#define GPU_TEXT_MAX 4096

static inline struct wire_field gpu_text(struct wire_field text)
{
    text.size = str_cut((const char *)text.data, text.size, GPU_TEXT_MAX);
    return text;
}

// Returns the number of a GPU that is unique across machines.
int64_t gpus_get(struct import *im, uint32_t gpu);

void gpu_frequency_push(struct import *im, int64_t ts, uint32_t gpu, double khz);

// Adds a value of a GPU's memory: the whole memory or, if `pid` is not 0, the memory of this
// process.
void gpu_memory_push(struct import *im, int64_t ts, uint32_t gpu, uint32_t pid, double bytes);

// Kinds of Vulkan objects, as Vulkan numbers them.
enum vulkan_object {
    VULKAN_COMMAND_BUFFER = 6,
    VULKAN_RENDER_PASS = 18,
    VULKAN_FRAMEBUFFER = 24,
};

extern const struct importer importer_vulkan_api; // has the names

// Returns the name that a program gave the object; no text: unnamed.
struct slice_name vulkan_object_name(struct import *im, enum vulkan_object type, uint64_t handle);

// Events of a machine's GPUs. Flows connect the slices of an event.
enum gpu_event_end {
    GPU_EVENT_SUBMITTED, // by a thread; the last slice counts
    GPU_EVENT_RAN,       // on a GPU
    GPU_EVENT_AWAITED,   // by a thread; the last slice counts
    GPU_EVENT_FOLLOWED,  // by other work on a GPU
};

struct gpu_event {
    int64_t submitted, awaited; // slices; -1: none
    int64_t ran, followed;      // lists in slices, newest first; -1: empty
};
VEC_DEFINE(gpu_event_vec, struct gpu_event);

struct gpu_event_slice {
    int64_t slice, next;
    uint32_t n; // length of the list from here on
};
VEC_DEFINE(gpu_event_slice_vec, struct gpu_event_slice);

// All zero is empty.
struct gpu_events {
    bool is_used;           // the trace has render stages
    struct map64 by_number; // -> index in items
    struct gpu_event_vec items;
    struct gpu_event_slice_vec slices;
};

extern const struct importer importer_render_stages; // has the state

// Returns the events of the current machine.
struct gpu_events *gpu_events_of(const struct import *im);

// Adds a slice to the event `number` of the current machine, and writes its flows.
void gpu_event_add(struct import *im, uint64_t number, enum gpu_event_end end, int64_t slice);

void gpu_events_done(struct gpu_events *events);
