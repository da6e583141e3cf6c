// SPDX-License-Identifier: Apache-2.0
//
// The profiler inside the program: from the decision that an allocation is a sample to the record
// in the ring. The hooks (hooks.c) decide with the inline functions here and leave the rest to
// client_*().
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "producer/agents/heap/sampler.h"
#include "producer/heap/ring_writer.h"
#include "producer/heap/sample_table.h"

// All zero before the thread's first allocation: that one is looked at and finds out.
struct thread_state {
    uint64_t left;           // bytes until the next look
    struct sampler sampler;  // its `left` begins behind those
    uint64_t interval;       // of `sampler`
    struct sampler reported; // of the program's own heaps; its unit is CLIENT_UNIT
    uint32_t epoch;          // of the profile that the samplers belong to
    uint32_t n_samples;
    uint8_t inside; // allocations of the profiler itself, or of a handler that interrupts it
    uint8_t
        in_the_list; // callbacks of dl_iterate_phdr() below us: the unwinder would want its lock
};

extern __thread struct thread_state client_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

// Its counts are wiped to zero in a child after fork, which leaves it without profile.
extern struct address_table client_table __attribute__((visibility("hidden")));

// The profile begins: takes over the memory behind `fd`, which stays the caller's. 0 or a negative
// errno. -EBUSY: there is one already.
int client_start(int fd);

// For a program that has no profile and may be summoned to one: does now what a signal handler
// cannot, before the program begins. 0 or a negative errno.
int client_prepare(void);
// Somebody wants the process: at its next allocation dormant_answer() is called. For signal
// handlers. False: it has a profile.
bool client_summon(uint64_t summons);

// The hooks are taken out, the memory is given back. Any thread, at any time.
void client_stop(void);

// The program is about to put itself into a seccomp jail, which might end it for what a profile
// takes: there is none when this returns, and no system call comes after it.
void client_enter_jail(void);

// What the recorder asks for is told now. Any thread.
void client_answer(void);

// The program ends: what can only be told now is told.
void client_finish(void);

// Objects have come or gone: hooks are put into those that are new.
void client_objects_changed(void);
void client_objects_changed_soon(void); // when somebody next has reason to look
bool client_objects_pending(void);

// Before an allocation. True: it is no sample, and that is all. Otherwise client_allocated() comes
// after it. `left` is never more than what makes an allocation a sure sample.
static inline bool client_passes(size_t size)
{
    struct thread_state *thread = &client_thread;
    if (__builtin_expect(size >= thread->left, 0))
        return false;
    thread->left -= size;
    return true;
}

// `p` is NULL where the allocation failed.
void client_allocated(void *p, size_t size);
// `p` may be a sample and is about to be freed. True: it was one.
bool client_freeing(void *p);
// It was, but then it was not freed.
void client_kept(void *p, size_t size);

static inline bool client_free(void *p)
{
    return __builtin_expect(table_may_have(&client_table, p), 0) && client_freeing(p);
}

// Heaps of the program's own. CLIENT_UNIT is one sampling interval, of whatever heap.

#define CLIENT_UNIT (UINT64_C(1) << 48)

struct client_report {
    unsigned heap;
    uint64_t key; // HEAP_KEY()
    size_t size;
    uint64_t interval; // as it is now
    bool is_exact;     // stands for itself; otherwise the thread's `reported` has come to a point
};

unsigned client_doublings(void); // of all intervals

// False: this is a child after fork, which has no profile.
bool client_reported(const struct client_report *report);
// `key` may be a sample.
void client_report_free(unsigned heap, uint64_t key);
// All that are from `start` to before `start + size`, when HEAP_KEY()'s part is taken out.
void client_report_free_range(unsigned heap, uint64_t start, uint64_t size);
