// SPDX-License-Identifier: Apache-2.0
//
// The profiler inside the program: from the decision that an allocation is a sample to the record
// in the ring. The hooks (hooks.c) decide with the inline functions here. All other work is in
// client_*().
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/agents/heap/sampler.h"
#include "producer/heap/ring_writer.h"
#include "producer/heap/sample_table.h"

// All zero before the thread's first allocation, which takes the slow path and initialises the
// state.
struct thread_state {
    uint64_t left;           // bytes until the next slow path
    struct sampler sampler;  // its own `left` counts from the end of those bytes
    uint64_t interval;       // of `sampler`
    struct sampler reported; // for the program's own heaps; its unit is CLIENT_UNIT
    uint32_t epoch;          // of the profile that the samplers belong to
    uint32_t n_samples;
    uint8_t inside;      // this thread allocates for the profiler itself, or is in a handler that
                         // interrupted it
    uint8_t in_the_list; // depth of dl_iterate_phdr() callbacks in which this thread is: the
                         // unwinder would need the loader's lock
};

extern __thread struct thread_state client_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

// A child after fork gets the counts wiped to zero, and therefore has none of its parent's samples.
extern struct address_table client_table __attribute__((visibility("hidden")));

// Begins a profile: maps the memory behind `fd` (borrowed). Returns 0 or a negative errno: -EBUSY
// if there is a profile already; -EINPROGRESS if another thread is beginning or ending a profile.
int client_start(int fd);

// Prepares a program without a profile for a summons: does the work that a signal handler cannot
// do, before the program begins. Returns 0 or a negative errno.
int client_prepare(void);
// Notes that a recorder wants the process: the next allocation calls dormant_answer(). For signal
// handlers. Returns false if there is a profile already.
bool client_summon(uint64_t summons);

// Ends the profile: takes the hooks out and gives the memory back. Any thread may call this at any
// time.
void client_stop(void);

// Ends the profile because the program is about to enter a seccomp jail, which could kill the
// program for system calls of the profiler. When this returns there is no profile, and no system
// call follows.
void client_enter_jail(void);

// Answers the recorder's question for arenas, if there is one. Any thread may call this.
void client_answer(void);

// Writes the last records when the program ends.
void client_finish(void);

// Puts the hooks into new objects, after objects were loaded or unloaded.
void client_objects_changed(void);
void client_objects_changed_soon(void); // leaves this work to the next slow path of any thread
bool client_objects_pending(void);

// Call it before an allocation. Returns true if the allocation is not a sample. Otherwise call
// client_allocated() after the allocation. `left` never exceeds the size from which an allocation
// is always a sample.
static inline bool client_passes(size_t size)
{
    struct thread_state *thread = &client_thread;
    if (__builtin_expect(size >= thread->left, 0))
        return false;
    thread->left -= size;
    return true;
}

// Call it after the allocation. `p` is NULL if the allocation failed.
void client_allocated(void *p, size_t size);
// Call it before a free of `p`, which may be a sample. Returns true if `p` was a sample.
bool client_freeing(void *p);
// Call it if client_freeing() returned true but `p` was not freed after all.
void client_kept(void *p, size_t size);

static inline bool client_free(void *p)
{
    return __builtin_expect(table_may_have(&client_table, p), 0) && client_freeing(p);
}

// The program's own heaps. CLIENT_UNIT stands for one sampling interval of any heap.

#define CLIENT_UNIT (UINT64_C(1) << 48)

struct client_report {
    unsigned heap;
    uint64_t key; // HEAP_KEY()
    size_t size;
    uint64_t interval; // the present interval
    bool is_exact; // the allocation stands for itself; otherwise the thread's `reported` reached a
                   // sampling point
};

unsigned client_doublings(void); // how often all intervals have doubled

// Records a sample. Returns false in a child after fork that has no profile.
bool client_reported(const struct client_report *report);
// Records the free of `key`, if it is a sample.
void client_report_free(unsigned heap, uint64_t key);
// Records the free of all samples whose address is in [start, start + size). The address is the key
// without the part that HEAP_KEY() adds.
void client_report_free_range(unsigned heap, uint64_t start, uint64_t size);
