// SPDX-License-Identifier: Apache-2.0
//
// Where the memory that is shared with the recorder lies in the process. One thread at a time, but
// for those that use what is there.
#pragma once

#include <stdbool.h>

#include "producer/heap/ring_writer.h"
#include "producer/heap/sample_table.h"

struct window {
    struct ring_writer ring;
    table_slot *slots; // of the table of samples
    void *memory;      // NULL: there is none
    uint64_t bytes;
};

// The header of the memory behind `fd`. 0, -EINVAL or -EPROTO: it is not what it should be.
int window_check(int fd, struct heap_header *ret);

// `is_used`: somebody may still use what was there before.
int window_map(struct window *window, int fd, uint64_t ring_bytes, bool is_used);

// Empty memory takes the place.
void window_cover(struct window *window);
// It is given back, or, if somebody may still use it, covered.
void window_leave(struct window *window, bool is_used);
