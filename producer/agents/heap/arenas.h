// SPDX-License-Identifier: Apache-2.0
//
// What the C library's allocator holds, as malloc_info() counts it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "producer/heap/ring_writer.h"

// Once, where the allocator may be used. `allocator` is the program's malloc: one that is not the C
// library's own has nothing to say.
void arenas_prepare(const void *allocator);

// Whose turn it is to count. All zero at the beginning.
struct arenas_turn {
    atomic_bool counting;
    int64_t due_ns;
};

// Answers the recorder, outside of the allocator, unless somebody else does. `is_last`: also before
// it is due.
void arenas_tell(struct arenas_turn *turn, struct ring_writer *ring, bool is_last);
bool arenas_are_asked_for(const struct heap_header *header);
