// SPDX-License-Identifier: Apache-2.0
//
// The triggers that the daemon fires itself: kmem_activity when the kernel reclaims memory or tasks
// stall for memory, oom_kill when the kernel kills a process for want of memory. Each of three
// groups rests for itself: work in the background, stalls, and kills. So a cgroup that reclaims all
// day at its limit does not hide a machine that stalls.
#pragma once

#include "common/err.h"
#include "producer/service/armed/kmem_watch.h"

#define MEMORY_WATCH_TRIGGER     "kmem_activity" // the triggers' names in trace configs
#define MEMORY_WATCH_OOM_TRIGGER "oom_kill"
#define MEMORY_WATCH_REST        (60 * NSEC_PER_SEC)
#define MEMORY_WATCH_REST_MAX    KMEM_WATCH_HOUR

// NULL-terminated.
extern const char *const memory_watch_default_events[];
extern const char *const memory_watch_default_psi[];

// Borrowed, as everything in it; outlives the watch.
struct memory_watch_options {
    struct loop *loop;
    const struct log *log;
    const struct source_roots *roots;
    // "group/name". Those of the group oom fire oom_kill, all others kmem_activity.
    const char *const *events; // NULL-terminated
    bool events_are_default;
    const char *const *psi; // as in kmem_watch.h, NULL-terminated
    bool psi_is_default;
    nsec_t rest, rest_max; // of each group; kmem_activity fires at most once in `rest`
    // The watch must not be freed inside the call.
    void (*hit)(void *userdata, const char *trigger, const struct kmem_watch_hit *hit);
    void *userdata;
};

struct memory_watch;

// As kmem_watch_new(): an error only if nothing can be watched.
int memory_watch_new(const struct memory_watch_options *options, struct memory_watch **ret,
                     struct err *err);
struct memory_watch *memory_watch_free(struct memory_watch *watch); // takes NULL, returns NULL

// 0, or -EINVAL with text and the nearest name: this kernel has no such event. Also 0 where the
// kernel shows no events.
int memory_watch_check_events(const struct source_roots *roots, const char *const *events,
                              struct err *err);
