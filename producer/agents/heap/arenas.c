// SPDX-License-Identifier: Apache-2.0
//
// malloc_info() writes a text to a stream. The stream is made once and kept: making one takes the
// lock of the list of streams, which must not be taken while a stream's own lock is held, and the
// program may hold any stream's lock when it allocates. The text is parsed as it is written, and
// never stored. Each element is a line of its own.
//
// malloc_info() takes the locks of all arenas in turn, for a time that grows with the number of
// free pieces. Counting is therefore limited to about a fiftieth of the time.
#include "producer/agents/heap/arenas.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "common/str.h"
#include "producer/agents/heap/client_state.h"

#pragma weak malloc_info // musl has none

#define LINE_MAX_BYTES 256
#define STREAM_BYTES   1024
#define REST           50 // pause between two counts, in multiples of the time of a count

static struct {
    FILE *stream;
    char buffer[STREAM_BYTES];
    char line[LINE_MAX_BYTES];
    size_t line_size;
    struct heap_arenas *into;
    bool in_arena;
    uint64_t index;
} arenas;

static struct heap_arena *arena_at(uint64_t index)
{
    return &arenas.into->arenas[index < HEAP_ARENAS_MAX ? index : HEAP_ARENAS_MAX - 1];
}

static void read_arena_line(const char *line)
{
    struct heap_arena *arena = arena_at(arenas.index);
    uint64_t n, bytes;
    if (sscanf(line, "<total type=\"fast\" count=\"%" SCNu64 "\" size=\"%" SCNu64, &n, &bytes) ==
        2) {
        arena->n_fast += n;
        arena->fast_bytes += bytes;
    } else if (sscanf(line, "<total type=\"rest\" count=\"%" SCNu64 "\" size=\"%" SCNu64, &n,
                      &bytes) == 2) {
        arena->n_free += n;
        arena->free_bytes += bytes;
    } else if (sscanf(line, "<system type=\"current\" size=\"%" SCNu64, &bytes) == 1) {
        arena->system_bytes += bytes;
    } else if (sscanf(line, "<system type=\"max\" size=\"%" SCNu64, &bytes) == 1) {
        arena->max_system_bytes += bytes;
    }
}

static void read_line(const char *line)
{
    uint64_t index, n, bytes;
    if (sscanf(line, "<heap nr=\"%" SCNu64, &index) == 1) {
        arenas.in_arena = true;
        arenas.index = index;
        uint64_t n_here = index < HEAP_ARENAS_MAX ? index + 1 : HEAP_ARENAS_MAX;
        if (n_here > arenas.into->n_arenas)
            arenas.into->n_arenas = (uint32_t)n_here;
    } else if (str_starts_with(line, "</heap>")) {
        arenas.in_arena = false;
    } else if (arenas.in_arena) {
        read_arena_line(line);
    } else if (sscanf(line, "<total type=\"mmap\" count=\"%" SCNu64 "\" size=\"%" SCNu64, &n,
                      &bytes) == 2) {
        arenas.into->n_mapped = n;
        arenas.into->mapped_bytes = bytes;
    }
}

static ssize_t take_text(void *cookie, const char *text, size_t size)
{
    (void)cookie;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n') {
            arenas.line[arenas.line_size] = 0;
            if (arenas.into)
                read_line(arenas.line);
            arenas.line_size = 0;
        } else if (arenas.line_size < LINE_MAX_BYTES - 1 &&
                   (arenas.line_size > 0 || text[i] != ' ')) {
            arenas.line[arenas.line_size++] = text[i];
        }
    }
    return (ssize_t)size;
}

void arenas_prepare(const void *allocator)
{
    Dl_info of_allocator, of_library;
    if (!dladdr(allocator, &of_allocator) || !dladdr((void *)(uintptr_t)malloc_info, &of_library) ||
        of_allocator.dli_fbase != of_library.dli_fbase)
        return;
    arenas.stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = take_text});
    if (arenas.stream)
        setvbuf(arenas.stream, arenas.buffer, _IOFBF, sizeof(arenas.buffer));
}

// `ret` has room for HEAP_ARENAS_MAX arenas. Returns false if there is nothing to report.
static bool read_arenas(struct heap_arenas *ret)
{
    if (!arenas.stream)
        return false;
    memset((char *)ret + sizeof(ret->head), 0,
           HEAP_ARENAS_BYTES(HEAP_ARENAS_MAX) - sizeof(ret->head));
    for (uint32_t i = 0; i < HEAP_ARENAS_MAX; i++)
        ret->arenas[i].index = i;
    arenas.into = ret;
    arenas.in_arena = false;
    bool is_done = malloc_info(0, arenas.stream) == 0 && fflush(arenas.stream) == 0;
    arenas.into = NULL;
    return is_done && ret->n_arenas > 0;
}

void arenas_tell(struct arenas_turn *turn, struct ring_writer *ring, bool is_last)
{
    static union {
        struct heap_arenas arenas;
        char bytes[HEAP_ARENAS_BYTES(HEAP_ARENAS_MAX)];
    } room;
    int64_t before = client_now_ns();
    if (atomic_exchange_explicit(&turn->counting, true, memory_order_acquire))
        return;
    unsigned ask = atomic_load_explicit(&ring->header->ask, memory_order_relaxed);
    if ((is_last || before >= turn->due_ns) && read_arenas(&room.arenas)) {
        size_t size = HEAP_ARENAS_BYTES(room.arenas.n_arenas);
        struct heap_arenas *record = ring_reserve(ring, HEAP_ARENAS, size, 0);
        if (record) {
            memcpy((char *)record + sizeof(record->head), room.bytes + sizeof(record->head),
                   size - sizeof(record->head));
            ring_commit(record);
        }
        int64_t after = client_now_ns();
        turn->due_ns = after + REST * (after - before);
    }
    atomic_store_explicit(&ring->header->answered, ask, memory_order_release);
    atomic_store_explicit(&turn->counting, false, memory_order_release);
}

bool arenas_are_asked_for(const struct heap_header *header)
{
    return atomic_load_explicit(&header->ask, memory_order_relaxed) !=
           atomic_load_explicit(&header->answered, memory_order_relaxed);
}
