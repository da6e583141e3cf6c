// SPDX-License-Identifier: Apache-2.0
//
// An arena for strings and small structs that live as long as their owner. All memory is released
// at once.
#pragma once

#include <stddef.h>

struct arena_block;

// All zero is an empty arena.
struct arena {
    struct arena_block *blocks; // owned, newest first
    size_t n_bytes;             // bytes handed out so far, for limits
};

// Allocates `size` bytes, zeroed and aligned for any type. Returns NULL if memory ran out. The
// memory stays valid until arena_done().
void *arena_alloc(struct arena *arena, size_t size);

// Copies `size` bytes and adds a terminator. Returns NULL if memory ran out.
char *arena_strndup(struct arena *arena, const char *text, size_t size);

void arena_done(struct arena *arena);
