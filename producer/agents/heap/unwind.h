// SPDX-License-Identifier: Apache-2.0
//
// The stack of the calling thread, as addresses.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Returns whether there is an unwinder. The functions below need one.
bool unwind_is_there(void);

// Sets where the profiler's own code is, whose frames are left out, and warms the unwinder up.
void unwind_prepare(const void *own_start, const void *own_end);

// Writes return addresses, innermost first. Returns the number of frames, or 0 if the stack cannot
// be unwound.
size_t unwind_here(uint64_t *frames, size_t max);

// Objects were unloaded: drops what is remembered of their code.
void unwind_forget(void);

// Returns an address in the unwinder's code.
const void *unwind_code(void);
