// SPDX-License-Identifier: Apache-2.0
//
// The memory that the C library's allocator holds, as malloc_info() counts it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "producer/heap/ring_writer.h"

// Prepares the count. Call it once, where the allocator may be used. `allocator` is the program's
// malloc. If this is not the C library's own malloc, nothing is counted.
void arenas_prepare(const void *allocator);

// Lets one thread count at a time. All zero at the beginning.
struct arenas_turn {
    atomic_bool counting;
    int64_t due_ns;
};

// Answers the recorder's question for arenas, unless another thread is doing so. Must be called
// outside of the allocator. `is_last`: answers even if no answer is due yet.
void arenas_tell(struct arenas_turn *turn, struct ring_writer *ring, bool is_last);
bool arenas_are_asked_for(const struct heap_header *header);
