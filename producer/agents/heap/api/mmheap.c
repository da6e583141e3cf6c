// SPDX-License-Identifier: Apache-2.0
//
// Everything is static and hidden: each program or library that links this code has a table of its
// own. Heaps are never removed, so the address of a heap stays valid as long as the object is
// loaded. A thread holds the lock for a few instructions, and never while it calls other code. The
// lock has the id of the process that took it: a child after fork takes over a lock of its parent,
// which nobody would release. The heap that the parent was about to add is missing in the child.
#include "producer/agents/heap/api/mmheap_registry.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden"), used))

extern struct mmheap_registry mmheap_registry_here;
HIDDEN struct mmheap_registry mmheap_registry_here = {
    .version = MMHEAP_REGISTRY_VERSION,
    .heap_size = sizeof(struct mmheap),
};

__asm__(".pushsection .note.mmheap,\"a\",%note\n"
        ".balign 4\n"
        ".4byte 7, 8, 1\n" // sizes of name and content, MMHEAP_NOTE_REGISTRY
        ".asciz \"mmheap\"\n"
        ".balign 4\n"
        ".8byte mmheap_registry_here - .\n"
        ".popsection\n");

#define registry mmheap_registry_here

// Returns the heap with this name, the last heap if there is no room, or NULL.
static struct mmheap *find(const char *name)
{
    uint32_t n = registry.n_heaps;
    for (uint32_t i = 0; i < n; i++)
        if (strncmp(registry.heaps[i].name, name, MMHEAP_NAME_MAX - 1) == 0)
            return &registry.heaps[i];
    return n < MMHEAP_HEAPS_MAX - 1 ? NULL : &registry.heaps[MMHEAP_HEAPS_MAX - 1];
}

static struct mmheap *add(const char *name, mmheap_changed_fn changed, void *userdata)
{
    struct mmheap *heap = &registry.heaps[registry.n_heaps];
    strncpy(heap->name, name, MMHEAP_NAME_MAX - 1);
    heap->changed = changed;
    heap->userdata = userdata;
    __atomic_store_n(&registry.n_heaps, registry.n_heaps + 1, __ATOMIC_RELEASE);
    return heap;
}

// A waiting thread sleeps, so that a thread of lower priority can go on.
static void lock(void)
{
    static const struct timespec pause = {.tv_nsec = 20000};
    uint32_t self = (uint32_t)getpid(), holder = 0;
    while (!__atomic_compare_exchange_n(&registry.lock, &holder, self, 0, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
        if (holder == self) {
            nanosleep(&pause, NULL);
            holder = 0;
        }
    }
}

struct mmheap *mmheap_register(const char *name, mmheap_changed_fn changed, void *userdata)
{
    if (!name || !*name)
        return &registry.heaps[MMHEAP_HEAPS_MAX - 1];
    lock();
    struct mmheap *heap = find(name);
    bool is_new = !heap;
    if (is_new)
        heap = add(name, changed, userdata);
    __atomic_store_n(&registry.lock, 0, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); // a profiler that has not seen the heap is seen here
    void (*tell)(void) = __atomic_load_n(&registry.registered, __ATOMIC_ACQUIRE);
    if (is_new && tell)
        tell();
    return heap;
}
