// SPDX-License-Identifier: Apache-2.0
//
// Which of the running processes a config means.
#pragma once

#include <stdint.h>

#include "common/map.h"
#include "producer/sources/heap/heap_settings.h"

// All zero is the state before the first look.
struct heap_targets {
    struct map64 seen; // pid -> start time, of processes that were handed out
};

// Calls `found` for every process that the config means and that was not handed out before; false
// from it: there are enough for now, the next look goes on.
void heap_targets_look(struct heap_targets *targets, const struct heap_settings *settings,
                       const char *proc, bool (*found)(void *userdata, int32_t pid),
                       void *userdata);
void heap_targets_done(struct heap_targets *targets);
