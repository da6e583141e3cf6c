// SPDX-License-Identifier: Apache-2.0
//
// Ends a process whose loop hangs, so that its service manager can restart it and SIGTERM always
// works. The watchdog is a thread, which sleeps while the loop sleeps.
#pragma once

#include "common/log.h"
#include "common/nsec.h"
#include "producer/ground/loop.h"

struct watchdog;

struct watchdog_options {
    struct loop *loop; // borrowed, as all members
    int signal_fd;     // signalfd of the signals that the loop handles
    int lock_fd;       // unlocked before the end, for the next process; -1: none
    const char *name;  // prefix of the last line, for example "mmtrace"
    nsec_t loop_max;   // maximum time of one round of the loop; 0: the default
    nsec_t signal_max; // maximum time for which a signal may wait for the loop; 0: the default
};

#define WATCHDOG_LOOP_MAX   (60 * NSEC_PER_SEC)
#define WATCHDOG_SIGNAL_MAX (5 * NSEC_PER_SEC)

int watchdog_new(const struct watchdog_options *options, struct watchdog **ret);
struct watchdog *watchdog_free(struct watchdog *watchdog);
