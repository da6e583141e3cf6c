/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools and arenas in heap profiles. A program that manages memory itself reports its allocations
 * here. `mmtrace heap --all-heaps` then shows each of its heaps by name, beside libc.malloc.
 *
 *     static struct mmheap *heap;
 *
 *     heap = mmheap_register("server.sessions", NULL, NULL);     once
 *     mmheap_report_alloc(heap, p, size);                        after each allocation
 *     mmheap_report_free(heap, p);                               before each free
 *
 * Link with libmmheap.a (pkg-config mmheap). The library is only a table: it loads no library,
 * starts no thread and allocates no memory. A profiler finds the table, even in a running process.
 * Without a profiler, a report costs one load and one branch.
 *
 * Any thread that has the heap may report at any time, even in a signal handler, and in a child
 * after fork (which takes no part in its parent's profile). If a library is unloaded, its table
 * disappears: its heaps must not be reported to any more, and their live allocations count as not
 * freed.
 */
#ifndef MMHEAP_H
#define MMHEAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MMHEAP_NAME_MAX 64 /* with the terminator; longer names are cut */

struct mmheap;

/* Called when recording of the heap begins (one sample per `interval` bytes on average) or ends
 * (0). The thread that notices calls it, perhaps in the middle of a report: the function may only
 * set variables. It may stay uncalled in a child after fork, where nothing is recorded. */
typedef void (*mmheap_changed_fn)(void *userdata, size_t interval);

/* Returns the heap with this name, never NULL. Every call within one program or library returns the
 * same heap. Heaps with the same name in several libraries are shown as one. `changed` may be NULL;
 * the first call decides. Any thread may call this, also in a child after fork, but not in a
 * signal handler. These heaps are never recorded: a heap without a name, heaps beyond 63 in a
 * program or library, heaps beyond 63 in the process, and "libc.malloc" and "com.android.art",
 * which are reserved. */
struct mmheap *mmheap_register(const char *name, mmheap_changed_fn changed, void *userdata);

/* The layout belongs to the library; programs use the functions below. */
struct mmheap {
    uint64_t interval; /* 0: not recorded */
    void (*tell_alloc)(struct mmheap *heap, const void *p, size_t size);
    void (*tell_free)(struct mmheap *heap, const void *p);
    void (*tell_free_range)(struct mmheap *heap, const void *start, size_t size);
    uint64_t mask, threshold;
    double scale;
    uint64_t index;
    mmheap_changed_fn changed;
    void *userdata;
    char name[MMHEAP_NAME_MAX];
};

/* Returns the bytes per sample, on average; 0: not recorded. */
static inline size_t mmheap_interval(const struct mmheap *heap)
{
    return (size_t)__atomic_load_n(&heap->interval, __ATOMIC_ACQUIRE);
}

/* `p` identifies the allocation until it is freed: its address, or any other value that is not NULL
 * and identifies no other live allocation of this heap. */
static inline void mmheap_report_alloc(struct mmheap *heap, const void *p, size_t size)
{
    if (__builtin_expect(mmheap_interval(heap) != 0, 0))
        heap->tell_alloc(heap, p, size);
}

/* Call it before `p` can be handed out again. */
static inline void mmheap_report_free(struct mmheap *heap, const void *p)
{
    if (__builtin_expect(mmheap_interval(heap) != 0, 0))
        heap->tell_free(heap, p);
}

/* Frees every allocation whose address is in [start, start + size), for example when an arena is
 * emptied. */
static inline void mmheap_report_free_range(struct mmheap *heap, const void *start, size_t size)
{
    if (__builtin_expect(mmheap_interval(heap) != 0, 0))
        heap->tell_free_range(heap, start, size);
}

#ifdef __cplusplus
}
#endif

#endif
