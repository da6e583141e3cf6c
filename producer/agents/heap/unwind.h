// SPDX-License-Identifier: Apache-2.0
//
// The stack of the calling thread, as addresses.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whether there is an unwinder; the functions below need it.
bool unwind_is_there(void);

// Tells where the profiler's own code is, whose frames are left out; warms the unwinder up.
void unwind_prepare(const void *own_start, const void *own_end);

// Innermost first; the number of frames, 0 where there is no way to tell.
size_t unwind_here(uint64_t *frames, size_t max);

// Objects have gone: what was remembered of their code holds no longer.
void unwind_forget(void);

// An address in the unwinder.
const void *unwind_code(void);
