// SPDX-License-Identifier: Apache-2.0
//
// The stack of the calling thread, as addresses.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Returns whether there is an unwinder. The functions below need one.
bool unwind_is_there(void);

// Sets the range of the profiler's own code, whose frames are left out, and warms up the unwinder.
void unwind_prepare(const void *own_start, const void *own_end);

// Writes return addresses, innermost first. Returns the number of frames, or 0 if the stack cannot
// be unwound.
size_t unwind_here(uint64_t *frames, size_t max);

// Drops all cached data of code, after objects were unloaded.
void unwind_forget(void);

// Returns an address in the unwinder's code.
const void *unwind_code(void);
