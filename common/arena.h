// SPDX-License-Identifier: Apache-2.0
//
// Memory that is released together: strings and small structs whose life ends with their owner's.
#pragma once

#include <stddef.h>

struct arena_block;

// All zero is an empty arena.
struct arena {
    struct arena_block *blocks; // owned, newest first
    size_t n_bytes;             // handed out so far, for limits
};

// `size` zeroed bytes aligned for any type, or NULL. Valid until arena_done().
void *arena_alloc(struct arena *arena, size_t size);

// A terminated copy of `size` bytes, or NULL.
char *arena_strndup(struct arena *arena, const char *text, size_t size);

void arena_done(struct arena *arena);
