// SPDX-License-Identifier: Apache-2.0
//
// What importers of GPU events share.
#pragma once

#include <stdint.h>

#include "converter/import/import.h"

// Kinds of Vulkan objects, as Vulkan numbers them.
enum vulkan_object {
    VULKAN_COMMAND_BUFFER = 6,
    VULKAN_RENDER_PASS = 18,
    VULKAN_FRAMEBUFFER = 24,
};

// The name that a program gave the object; no text: none.
struct slice_name vulkan_object_name(struct import *im, enum vulkan_object type, uint64_t handle);
