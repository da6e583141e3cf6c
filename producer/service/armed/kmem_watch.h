// SPDX-License-Identifier: Apache-2.0
//
// Detects a shortage of memory, by kernel events in a separate tracefs instance, and by thresholds
// of /proc/pressure/memory. The watch sleeps in the kernel until a hit. After a hit it rests:
// nothing is watched and nothing wakes the process. The rest doubles with each further hit of the
// last hour, so that permanent signs cause fewer and fewer hits.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "common/nsec.h"
#include "producer/ground/loop.h"
#include "producer/sources/ftrace/trace_line.h"
#include "producer/sources/source.h"

#define KMEM_WATCH_PSI_DEFAULT "some 150000 1000000" // 150 ms of stalls in one second

#define KMEM_WATCH_EVENTS_MAX 32
#define KMEM_WATCH_PSI_MAX    8
#define KMEM_WATCH_HOUR       (3600 * NSEC_PER_SEC)
#define KMEM_WATCH_DETAIL_MAX 160

struct kmem_watch_hit {
    nsec_t time;      // boot time of the event, or of the wake-up if the event's time is unknown
    const char *what; // the event or threshold as given in the options
    // The kernel's text of the event, " by TASK-PID: ARGUMENTS", or "".
    char detail[KMEM_WATCH_DETAIL_MAX];
};

// All members are borrowed and must outlive the watch.
struct kmem_watch_options {
    struct loop *loop;
    const struct log *log;
    const struct source_roots *roots;
    const char *instance;      // an existing instance of tracefs; NULL: a private instance
    const char *const *events; // "group/name", NULL-terminated; NULL: none
    // "some STALL_USEC WINDOW_USEC" or "full ...", optionally followed by the pressure file of a
    // cgroup. NULL-terminated; NULL: none.
    const char *const *psi;
    // The events are the default, not the user's choice: missing events cause no warning.
    bool is_default;
    nsec_t rest;     // rest after a hit; > 0. Doubles with each further hit of the last hour
    nsec_t rest_max; // limit of the doubled rest
    // Called on a hit. Must not free the watch.
    void (*hit)(void *userdata, const struct kmem_watch_hit *hit);
    void *userdata;
};

struct kmem_watch;

// Starts the watch. Events that this kernel does not have are logged and left out. Returns 0 or a
// negative errno with text. Fails only if nothing is left to watch. Does not call `hit` itself.
int kmem_watch_new(const struct kmem_watch_options *options, struct kmem_watch **ret,
                   struct err *err);
struct kmem_watch *kmem_watch_free(struct kmem_watch *watch); // takes NULL, returns NULL

// Rests at least until `until` (boot time), because another group has fired already.
void kmem_watch_rest_until(struct kmem_watch *watch, nsec_t until);

// Returns whether the watch rests, and the number of its hits.
bool kmem_watch_resting(const struct kmem_watch *watch);
uint64_t kmem_watch_hits(const struct kmem_watch *watch);

// Checks a text for kmem_watch_options.psi. Returns 0, or -EINVAL with text. If the window needs a
// right that this process lacks, the watch uses the next larger permitted window, with the stall
// time in proportion.
int kmem_watch_check_psi(const char *text, struct err *err);

// Finds the first event with a time within [earliest, latest] in the `size` bytes of `text`, lines
// of trace_pipe. Returns false without an event.
bool kmem_watch_parse(const char *text, size_t size, nsec_t earliest, nsec_t latest,
                      struct trace_line *ret);
