// SPDX-License-Identifier: Apache-2.0
//
// Which of the running processes a config means.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "common/nsec.h"
#include "producer/sources/heap/heap_settings.h"

// All zero is the state before the first look.
struct heap_targets {
    struct map64 seen; // pid -> start time, of processes that were handed out
};

enum heap_target_answer {
    HEAP_TARGET_DONE,  // not handed out again
    HEAP_TARGET_LATER, // at the next look
};

// Calls `found` for every process that the config means and that was not handed out before. False:
// some were put off.
bool heap_targets_look(struct heap_targets *targets, const struct heap_settings *settings,
                       const char *proc,
                       enum heap_target_answer (*found)(void *userdata, int32_t pid),
                       void *userdata);

// When a process began, boot time, up to a tick early; 0: it is gone.
nsec_t heap_targets_began(const char *proc, int32_t pid);

void heap_targets_done(struct heap_targets *targets);
