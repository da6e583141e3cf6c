// SPDX-License-Identifier: Apache-2.0
//
// The memory of a packet buffer: address space that the kernel fills with pages shortly before they
// are used, in huge pages where these are cheap.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct buffer_memory {
    uint8_t *start; // borrowed from `mapped`
    size_t size;
    size_t ready; // bytes from the start that need no further step
    size_t unit;  // memory goes back to the kernel in multiples of this size
    bool huge_is_cheap;
    void *mapped; // owned
    size_t mapped_size;
};

// Maps `size` bytes, a multiple of the page size. Returns 0 or a negative errno.
int buffer_memory_map(struct buffer_memory *memory, size_t size, struct err *err);
void buffer_memory_unmap(struct buffer_memory *memory);

// Sets whether children after fork() have a copy of the memory. A new memory has no copies, because
// a child would keep the former content of each changed page.
void buffer_memory_keep_in_fork(const struct buffer_memory *memory, bool keep);

void buffer_memory_take(struct buffer_memory *memory, size_t end);

// Takes the memory before `end` from the kernel if the buffer takes memory in steps. Call this
// function before the first use of the memory.
static inline void buffer_memory_prepare(struct buffer_memory *memory, size_t end)
{
    if (__builtin_expect(end > memory->ready, 0))
        buffer_memory_take(memory, end);
}
