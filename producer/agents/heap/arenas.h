// SPDX-License-Identifier: Apache-2.0
//
// What the C library's allocator holds, as malloc_info() counts it.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "producer/agents/heap/heap_abi.h"

// Once, where the allocator may be used. `allocator` is the program's malloc: one that is not the C
// library's own has nothing to say.
void arenas_prepare(const void *allocator);

// One caller at a time, outside of the allocator. `ret` has room for HEAP_ARENAS_MAX arenas. False:
// there is nothing to tell.
bool arenas_read(struct heap_arenas *ret);
