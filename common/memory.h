// SPDX-License-Identifier: Apache-2.0
//
// A process-wide flag: an allocation failed.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Sets the flag. Returns -ENOMEM. The containers of common/ call this function themselves.
int memory_refused(void);

// Returns whether an allocation has ever failed.
bool memory_was_refused(void);

// calloc() and malloc() that set the flag on failure.
void *memory_calloc(size_t n, size_t size);
void *memory_malloc(size_t size);
