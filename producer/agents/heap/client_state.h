// SPDX-License-Identifier: Apache-2.0
//
// The state shared by client.c (the life of a profile), sample_records.c and room.c.
#pragma once

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "producer/agents/heap/arenas.h"
#include "producer/agents/heap/client.h"
#include "producer/agents/heap/losses.h"
#include "producer/agents/heap/window.h"

#define CLIENT_PAGE_MAX       65536
#define CLIENT_PRESENT_SHARDS 16

struct client_present {
    _Alignas(64) atomic_uint n;
};

// Whole pages, because the kernel wipes them to zero in a child after fork.
struct client {
    _Alignas(CLIENT_PAGE_MAX) atomic_uint epoch; // of the profile; 0: there is no profile
    uint32_t flags, block_timeout_us;
    uint64_t adaptive_free_bytes, adaptive_interval_bytes;
    _Atomic uint64_t interval; // of malloc; 0: malloc is not sampled
    _Atomic uint32_t n_doublings;
    uint64_t largest_interval;                            // that the recorder asked for
    bool is_there;                                        // false in a child after fork
    pid_t pid;                                            // process in which the profile began
    struct client_present present[CLIENT_PRESENT_SHARDS]; // threads that use the ring
    atomic_bool rested;                                   // the hooks were taken out after a fork
    atomic_bool asked;   // a child after fork has tried to get a profile
    atomic_bool walking; // a thread is changing the GOTs
    atomic_uint pending; // objects may have been loaded
    // Set when the ring became full.
    _Atomic int64_t full_since_ns;
    atomic_uint full_heartbeat;
    atomic_bool is_silent; // the recorder has not answered for longer than any thread waits
    struct losses losses;
    struct arenas_turn arenas;
};

_Static_assert(sizeof(struct client) == CLIENT_PAGE_MAX, "one page");

extern struct client client __attribute__((visibility("hidden")));

// Not wiped: a child after fork keeps these.
extern struct client_lasting {
    struct window window; // of the ring
    atomic_bool hooked;
    atomic_uint last_epoch;
    bool prepared, unwinder_prepared;
    char children_ask[HEAP_ADDRESS_BYTES]; // the header's text when the profile began
    _Atomic uint64_t summons;              // a summons that waits for an allocation; 0: none
} client_lasting __attribute__((visibility("hidden")));

static inline int64_t client_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static inline int client_cancel_off(void)
{
    int before = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void client_cancel_restore(int before)
{
    pthread_setcancelstate(before, NULL);
}

// Counts the threads that use the ring.

static inline atomic_uint *client_present_of(const struct thread_state *thread)
{
    uint64_t place = (uint64_t)(uintptr_t)thread >> 12;
    return &client.present[(place ^ place >> 11) % CLIENT_PRESENT_SHARDS].n;
}

// Returns the epoch of the profile. 0 means that there is no profile and nothing may be touched.
// Call client_leave() in every case.
static inline uint32_t client_enter(const struct thread_state *thread)
{
    atomic_fetch_add(client_present_of(thread), 1);
    return atomic_load(&client.epoch);
}

static inline void client_leave(const struct thread_state *thread)
{
    atomic_fetch_sub_explicit(client_present_of(thread), 1, memory_order_release);
}

// Functions of client.c, for sample_records.c.

// Sets the interval of malloc from now on.
void client_set_interval(uint64_t interval);
// Ends the profile. For a thread that has entered once.
void client_stop_entered(void);
// In a child after fork, the first time: asks the recorder of its parent for a profile. Returns
// whether the child has one now. For a thread that has entered once.
bool client_follow_parent(void);
// In a child after fork: takes the hooks out, unless another thread may have been in the loader at
// the time of the fork.
void client_rest(void);
// Answers a recorder that wants this process, which has no profile.
void client_follow_summons(void);
