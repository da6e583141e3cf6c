// SPDX-License-Identifier: Apache-2.0
//
// Finds the running processes that a config selects.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "common/nsec.h"
#include "producer/sources/heap/heap_settings.h"

// All zero is the initial state.
struct heap_targets {
    struct map64 seen; // pid -> start time, of processes that were passed to `found`
};

// Calls `found` for each process that the config selects, until `found` returns true for it.
// Returns false if `found` returned false for any process.
bool heap_targets_look(struct heap_targets *targets, const struct heap_settings *settings,
                       const char *proc, bool (*found)(void *userdata, int32_t pid),
                       void *userdata);

// Returns the boot time at which a process began, up to a tick early; 0 if it is gone.
nsec_t heap_targets_began(const char *proc, int32_t pid);

void heap_targets_done(struct heap_targets *targets);
