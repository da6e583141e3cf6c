// SPDX-License-Identifier: Apache-2.0
//
// The first use of each page causes a page fault, and the kernel zeroes the page. For events of 30
// bytes this takes as much time as their encoding. Therefore the kernel is asked for the pages of a
// whole step in one call, and for huge pages where these are cheap: one huge page replaces 512
// small ones, and the kernel zeroes it several times as fast.
//
// Huge pages are not cheap everywhere. If no huge page is free, the kernel compacts memory: the
// recorder waits, and a recording of memory pressure shows the work for its own recorder. A virtual
// machine may have returned just these pages to its host. Therefore little free memory means small
// pages, and the first huge page that took long is the last one of its buffer.
//
// Small buffers take each page when they need it, because a step would be most of their size.
#include "producer/trace/buffer_memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "common/nsec.h"

#define HUGE_BYTES     ((size_t)2 << 20)
#define LARGE_MIN      (2 * HUGE_BYTES)      // least size of a buffer that takes memory in steps
#define STEP_BYTES     ((size_t)256 << 10)   // of small pages
#define RELEASE_BYTES  ((size_t)1 << 20)     // of a small buffer
#define FREE_SHARE_MIN 16                    // huge pages need this part of the memory to be free
#define CHEAP_NSEC     (750 * NSEC_PER_USEC) // small pages of the same size take longer

int buffer_memory_map(struct buffer_memory *memory, size_t size, struct err *err)
{
    bool is_large = size >= LARGE_MIN;
    size_t mapped_size = size + (is_large ? HUGE_BYTES : 0);
    void *mapped = mmap(NULL, mapped_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return err_errno(err, -errno, "Buffer of %zu bytes", size);
    size_t to_border = (HUGE_BYTES - (uintptr_t)mapped % HUGE_BYTES) % HUGE_BYTES;
    *memory = (struct buffer_memory){
        .start = (uint8_t *)mapped + (is_large ? to_border : 0),
        .size = size,
        .ready = is_large ? 0 : size,
        .unit = is_large ? HUGE_BYTES : RELEASE_BYTES,
        .huge_is_cheap = is_large,
        .mapped = mapped,
        .mapped_size = mapped_size,
    };
    buffer_memory_keep_in_fork(memory, false);
    return 0;
}

void buffer_memory_keep_in_fork(const struct buffer_memory *memory, bool keep)
{
    madvise(memory->mapped, memory->mapped_size, keep ? MADV_DOFORK : MADV_DONTFORK);
}

void buffer_memory_unmap(struct buffer_memory *memory)
{
    if (memory->mapped)
        munmap(memory->mapped, memory->mapped_size);
    *memory = (struct buffer_memory){0};
}

#ifdef MADV_POPULATE_WRITE

static bool populate(const struct buffer_memory *memory, size_t size)
{
    return madvise(memory->start + memory->ready, size, MADV_POPULATE_WRITE) == 0;
}

static bool has_free_memory(void)
{
    struct sysinfo info;
    return sysinfo(&info) == 0 && info.freeram >= info.totalram / FREE_SHARE_MIN;
}

// Returns false if the next step should be taken in small pages.
static bool take_huge(struct buffer_memory *memory)
{
    uint8_t *from = memory->start + memory->ready;
    if (!memory->huge_is_cheap || memory->size - memory->ready < HUGE_BYTES ||
        memory->ready % HUGE_BYTES || !has_free_memory() ||
        madvise(from, HUGE_BYTES, MADV_HUGEPAGE) < 0)
        return false;
    nsec_t start = nsec_now(CLOCK_THREAD_CPUTIME_ID);
    bool taken = populate(memory, HUGE_BYTES);
    memory->huge_is_cheap = taken && nsec_now(CLOCK_THREAD_CPUTIME_ID) - start <= CHEAP_NSEC;
    if (taken)
        memory->ready += HUGE_BYTES;
    return taken;
}

void buffer_memory_take(struct buffer_memory *memory, size_t end)
{
    while (memory->ready < end) {
        if (take_huge(memory))
            continue;
        size_t rest = memory->size - memory->ready;
        size_t step = rest < STEP_BYTES ? rest : STEP_BYTES;
        // If the kernel lacks the call or the memory, each page is taken at its first use.
        memory->ready = populate(memory, step) ? memory->ready + step : memory->size;
    }
}

#else

void buffer_memory_take(struct buffer_memory *memory, size_t end)
{
    (void)end;
    memory->ready = memory->size;
}

#endif
