// SPDX-License-Identifier: Apache-2.0
//
// The triggers that the daemon fires itself: kmem_activity if the kernel reclaims memory or tasks
// stall for memory, and oom_kill if the kernel kills a process because memory ran out. The signs
// have three groups: background work, stalls, and kills. Each group rests separately. Therefore a
// cgroup that reclaims all day at its limit does not hide stalls of the machine.
#pragma once

#include "common/err.h"
#include "producer/service/armed/kmem_watch.h"

#define MEMORY_WATCH_TRIGGER     "kmem_activity" // the names of the triggers in trace configs
#define MEMORY_WATCH_OOM_TRIGGER "oom_kill"
#define MEMORY_WATCH_REST        (60 * NSEC_PER_SEC)
#define MEMORY_WATCH_REST_MAX    KMEM_WATCH_HOUR

// NULL-terminated.
extern const char *const memory_watch_default_events[];
extern const char *const memory_watch_default_psi[];

// All members are borrowed and must outlive the watch.
struct memory_watch_options {
    struct loop *loop;
    const struct log *log;
    const struct source_roots *roots;
    // "group/name". Events of the group oom fire oom_kill; all others fire kmem_activity.
    const char *const *events; // NULL-terminated
    bool events_are_default;
    const char *const *psi; // as in kmem_watch.h, NULL-terminated
    bool psi_is_default;
    // How long a group rests after a hit. All groups together fire kmem_activity at most once per
    // `rest`.
    nsec_t rest, rest_max;
    // Called on a hit. Must not free the watch.
    void (*hit)(void *userdata, const char *trigger, const struct kmem_watch_hit *hit);
    void *userdata;
};

struct memory_watch;

// Starts the watch, as kmem_watch_new() does. Returns 0 or a negative errno with text. Fails only
// if nothing can be watched.
int memory_watch_new(const struct memory_watch_options *options, struct memory_watch **ret,
                     struct err *err);
struct memory_watch *memory_watch_free(struct memory_watch *watch); // takes NULL, returns NULL

// Returns 0, or -EINVAL with text and the nearest name if this kernel does not have an event.
// Returns 0 if the kernel's list of events cannot be read.
int memory_watch_check_events(const struct source_roots *roots, const char *const *events,
                              struct err *err);
