// SPDX-License-Identifier: Apache-2.0
//
// What importers of GPU events share.
#pragma once

#include <stdint.h>

#include "converter/import/import.h"

// Bytes of names and explanations that are kept: each event of a GPU repeats those of what it
// refers to.
#define GPU_TEXT_MAX 4096

static inline struct wire_field gpu_text(struct wire_field text)
{
    text.size = str_cut((const char *)text.data, text.size, GPU_TEXT_MAX);
    return text;
}

// The number of a GPU that is unique in the trace.
int64_t gpus_get(struct import *im, uint32_t gpu);

void gpu_frequency_push(struct import *im, int64_t ts, uint32_t gpu, double khz);

// Memory of a GPU (bytes), all of it or, if `pid` is not 0, what that process has.
void gpu_memory_push(struct import *im, int64_t ts, uint32_t gpu, uint32_t pid, double bytes);

// Kinds of Vulkan objects, as Vulkan numbers them.
enum vulkan_object {
    VULKAN_COMMAND_BUFFER = 6,
    VULKAN_RENDER_PASS = 18,
    VULKAN_FRAMEBUFFER = 24,
};

extern const struct importer importer_vulkan_api; // has the names

// The name that a program gave the object; no text: none.
struct slice_name vulkan_object_name(struct import *im, enum vulkan_object type, uint64_t handle);
