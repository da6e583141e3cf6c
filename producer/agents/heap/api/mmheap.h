/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools and arenas in heap profiles. A program that hands out memory by itself tells of it here,
 * and `mmtrace heap --all-heaps` shows each such heap under its own name, beside libc.malloc.
 *
 *     static struct mmheap *heap;
 *
 *     heap = mmheap_register("server.sessions", NULL, NULL);     once
 *     mmheap_report_alloc(heap, p, size);                        after each allocation
 *     mmheap_report_free(heap, p);                               before each free
 *
 * Link with libmmheap.a (pkg-config mmheap). It is a table and nothing else: no library is loaded,
 * no thread is started, no memory is allocated. Whoever profiles the process finds the table, also
 * in a process that runs already. While nobody does, a report is a load and a branch.
 *
 * Any thread may report at any time once it has the heap, also in a signal handler and in a child
 * after fork, which has no part in its parent's profile. A library that is unloaded takes its table
 * with it: nobody may report to its heaps any more, and what lives in them counts as not freed.
 */
#ifndef MMHEAP_H
#define MMHEAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MMHEAP_NAME_MAX 64 /* with the 0 at the end; what is longer is cut */

struct mmheap;

/* Recording of the heap begins (`interval` bytes for one sample, on average) or ends (0). It is
 * called by whatever thread notices, perhaps in the middle of a report: it may set variables and no
 * more. A child after fork may not be called; nobody records there. */
typedef void (*mmheap_changed_fn)(void *userdata, size_t interval);

/* The heap of that name: the same at every call within one program or library, and shown as one
 * heap where several of them use the name. `changed` may be NULL; the first call's counts. Any
 * thread, also in a child after fork, but not in signal handlers. Never NULL: beyond 63 heaps, and
 * without a name, it is one that nobody records; and so are those beyond 63 in the whole process,
 * and "libc.malloc" and "com.android.art", which are taken. */
struct mmheap *mmheap_register(const char *name, mmheap_changed_fn changed, void *userdata);

/* The layout belongs to the library; programs use the functions below. */
struct mmheap {
    uint64_t interval; /* 0: nobody records */
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

/* Bytes for one sample, on average; 0: nobody records. */
static inline size_t mmheap_interval(const struct mmheap *heap)
{
    return (size_t)__atomic_load_n(&heap->interval, __ATOMIC_ACQUIRE);
}

/* `p` stands for the allocation until it is freed: its address, or anything else that is no other
 * live allocation of this heap, and not NULL. */
static inline void mmheap_report_alloc(struct mmheap *heap, const void *p, size_t size)
{
    if (__builtin_expect(mmheap_interval(heap) != 0, 0))
        heap->tell_alloc(heap, p, size);
}

/* Before `p` can be handed out again. */
static inline void mmheap_report_free(struct mmheap *heap, const void *p)
{
    if (__builtin_expect(mmheap_interval(heap) != 0, 0))
        heap->tell_free(heap, p);
}

/* Every allocation whose address is in [start, start + size) is freed: an arena is emptied. */
static inline void mmheap_report_free_range(struct mmheap *heap, const void *start, size_t size)
{
    if (__builtin_expect(mmheap_interval(heap) != 0, 0))
        heap->tell_free_range(heap, start, size);
}

#ifdef __cplusplus
}
#endif

#endif
