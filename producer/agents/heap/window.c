// SPDX-License-Identifier: Apache-2.0
//
// If a handler jumps out of a write to the ring, the thread counts as inside the ring for ever, and
// must find memory there. Therefore the place of the mapping is reused if possible, and otherwise
// stays.
#include "producer/agents/heap/window.h"

#include <errno.h>
#include <sys/mman.h>

static void unmap(struct window *window)
{
    munmap(window->memory, window->bytes);
    window->memory = NULL;
}

int window_map(struct window *window, int fd, uint64_t ring_bytes, bool is_used)
{
    uint64_t size = HEAP_MEMORY_BYTES(ring_bytes);
    if (window->memory && !is_used)
        unmap(window);
    void *place = window->memory && window->bytes == size ? window->memory : NULL;
    void *memory =
        mmap(place, size, PROT_READ | PROT_WRITE, MAP_SHARED | (place ? MAP_FIXED : 0), fd, 0);
    if (memory == MAP_FAILED)
        return -errno;
    window->memory = memory;
    window->bytes = size;
    window->ring = (struct ring_writer){
        .header = memory,
        .memory = (uint8_t *)memory + HEAP_HEADER_BYTES,
        .bytes = ring_bytes,
    };
    window->slots = (table_slot *)(window->ring.memory + ring_bytes);
    return 0;
}

void window_cover(struct window *window)
{
    if (window->memory)
        mmap(window->memory, window->bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

void window_leave(struct window *window, bool is_used)
{
    if (is_used)
        window_cover(window);
    else
        unmap(window);
}
