// SPDX-License-Identifier: Apache-2.0
//
// libunwind caches, per address, the way to the next frame: a stack that was seen before costs some
// nanoseconds per frame. Without unwind information, libunwind follows frame pointers and checks
// its reads by system calls, which are cancellation points.
//
// libunwind is an auxiliary library (DT_AUXILIARY). If it is installed, it is loaded together with
// this library, so that nothing must be loaded when a profile begins. If it is missing, or the
// loader is musl's, this library is loaded all the same.
#define UNW_LOCAL_ONLY
#include "producer/agents/heap/unwind.h"

#include <libunwind.h>
#include <pthread.h>

#include "producer/heap/heap_abi.h"

#define OWN_FRAMES_MAX 8

extern int unw_backtrace(void **, int) __attribute__((weak));
extern void unw_flush_cache(unw_addr_space_t, unw_word_t, unw_word_t) __attribute__((weak));
extern unw_addr_space_t unw_local_addr_space __attribute__((weak));

static uintptr_t own_start, own_end;

bool unwind_is_there(void)
{
    return unw_backtrace && unw_flush_cache && &unw_local_addr_space;
}

void unwind_prepare(const void *start, const void *end)
{
    void *first[1]; // one frame is enough for libunwind to initialise itself
    own_start = (uintptr_t)start;
    own_end = (uintptr_t)end;
    unw_backtrace(first, 1);
}

size_t unwind_here(uint64_t *frames, size_t max)
{
    void *raw[HEAP_FRAMES_MAX + OWN_FRAMES_MAX];
    size_t wanted = (max < HEAP_FRAMES_MAX ? max : HEAP_FRAMES_MAX) + OWN_FRAMES_MAX;
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    int n_raw = unw_backtrace(raw, (int)wanted);
    pthread_setcancelstate(cancel, NULL);
    size_t n = 0;
    for (int i = 0; i < n_raw && n < max; i++) {
        uintptr_t pc = (uintptr_t)raw[i];
        if (n == 0 && pc >= own_start && pc < own_end)
            continue;
        frames[n++] = pc;
    }
    return n;
}

void unwind_forget(void)
{
    unw_flush_cache(unw_local_addr_space, 0, 0);
}

const void *unwind_code(void)
{
    return (const void *)(uintptr_t)unw_backtrace;
}
