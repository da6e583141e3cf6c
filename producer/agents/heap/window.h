// SPDX-License-Identifier: Apache-2.0
//
// The mapping of the memory that is shared with the recorder. The functions may run in one thread
// at a time, but other threads may use the mapping meanwhile.
#pragma once

#include <stdbool.h>

#include "producer/heap/ring_writer.h"
#include "producer/heap/sample_table.h"

struct window {
    struct ring_writer ring;
    table_slot *slots; // of the table of samples
    void *memory;      // NULL: no mapping
    uint64_t bytes;
};

// Maps the memory. `is_used`: a thread may still use the old mapping. Returns 0 or a negative
// errno.
int window_map(struct window *window, int fd, uint64_t ring_bytes, bool is_used);

// Puts empty memory in the place of the mapping.
void window_cover(struct window *window);
// Unmaps the memory, or covers it with empty memory if a thread may still use it.
void window_leave(struct window *window, bool is_used);
