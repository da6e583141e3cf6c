// SPDX-License-Identifier: Apache-2.0
//
// Tells when memory gets short: by events of the kernel, in a tracefs instance of its own, and by
// thresholds of /proc/pressure/memory. Sleeps in the kernel until it happens, then rests for a
// while, in which nothing is watched and nothing wakes up. The rest doubles with each further hit
// of the last hour: signs that go on all day hit at longer and longer intervals.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "common/nsec.h"
#include "producer/ground/loop.h"
#include "producer/sources/source.h"

#define KMEM_WATCH_PSI_DEFAULT "some 150000 1000000" // 150 ms of stalls in a second

#define KMEM_WATCH_EVENTS_MAX 32
#define KMEM_WATCH_PSI_MAX    8
#define KMEM_WATCH_HOUR       (3600 * NSEC_PER_SEC)
#define KMEM_WATCH_DETAIL_MAX 160

struct kmem_watch_hit {
    nsec_t time;      // boot time of the event; of the wake-up where it cannot be told
    const char *what; // the event or threshold as it was asked for
    // " by TASK-PID: ARGUMENTS", the kernel's text of the event; "" if there is none.
    char detail[KMEM_WATCH_DETAIL_MAX];
};

// Borrowed, as everything in it; outlives the watch.
struct kmem_watch_options {
    struct loop *loop;
    const struct log *log;
    const struct source_roots *roots;
    const char *instance;      // of tracefs, which exists; NULL: one of our own
    const char *const *events; // "group/name", NULL-terminated; NULL: none
    // "some STALL_USEC WINDOW_USEC" or "full ...", perhaps with the pressure file of a cgroup
    // behind it, NULL-terminated; NULL: none
    const char *const *psi;
    // Missing events draw no warning, because the user did not name them.
    bool is_default;
    nsec_t rest;     // after a hit; > 0. Doubled for each other one of the last hour
    nsec_t rest_max; // bounds that
    // The watch must not be freed inside the call.
    void (*hit)(void *userdata, const struct kmem_watch_hit *hit);
    void *userdata;
};

struct kmem_watch;

// Watches from here on. Events that this kernel does not have are logged and left out. An error
// only if nothing is left to watch. `hit` is never called from inside.
int kmem_watch_new(const struct kmem_watch_options *options, struct kmem_watch **ret,
                   struct err *err);
struct kmem_watch *kmem_watch_free(struct kmem_watch *watch); // takes NULL, returns NULL

// Rests at least until `until` (boot time): another sign has fired already.
void kmem_watch_rest_until(struct kmem_watch *watch, nsec_t until);

// Whether it rests, and how often it hit.
bool kmem_watch_resting(const struct kmem_watch *watch);
uint64_t kmem_watch_hits(const struct kmem_watch *watch);

// 0, or -EINVAL with text: not what kmem_watch_options.psi takes. Where this process may not have
// any window, the next larger one that it may have is watched, with a stall in proportion.
int kmem_watch_check_psi(const char *text, struct err *err);

// The first event in `text`, which is what trace_pipe gives (`size` bytes): its time within
// [earliest, latest], and its name, which points into `text`. False if there is none.
bool kmem_watch_parse(const char *text, size_t size, nsec_t earliest, nsec_t latest,
                      nsec_t *ret_time, const char **ret_name, size_t *ret_name_size);
