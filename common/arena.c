// SPDX-License-Identifier: Apache-2.0
//
// Bump allocation in blocks of 64 KiB. A request above a quarter of a block gets a separate block
// after the current block. Large requests therefore do not waste the rest of the current block.
#include "common/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

#define BLOCK_SIZE ((size_t)64 * 1024)
#define ALIGNMENT  alignof(max_align_t)

struct arena_block {
    struct arena_block *next; // owned
    size_t used, size;
    alignas(max_align_t) uint8_t data[];
};

static struct arena_block *block_new(size_t size)
{
    struct arena_block *block = malloc(sizeof(*block) + size);
    if (block)
        *block = (struct arena_block){.size = size};
    else
        memory_refused();
    return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct arena_block *head = arena->blocks, *block = head;

    if (!head || head->size - head->used < size) {
        int large = size > BLOCK_SIZE / 4;
        block = block_new(large ? size : BLOCK_SIZE);
        if (!block)
            return NULL;
        if (large && head) {
            block->next = head->next;
            head->next = block;
        } else {
            block->next = head;
            arena->blocks = block;
        }
    }
    void *p = block->data + block->used;
    block->used += size;
    arena->n_bytes += size;
    return memset(p, 0, size);
}

char *arena_strndup(struct arena *arena, const char *text, size_t size)
{
    if (size == SIZE_MAX)
        return NULL;
    char *copy = arena_alloc(arena, size + 1);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void arena_done(struct arena *arena)
{
    struct arena_block *block = arena->blocks;
    while (block) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (struct arena){0};
}
