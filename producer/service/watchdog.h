// SPDX-License-Identifier: Apache-2.0
//
// Ends a process whose loop hangs, so that whoever started it can start it anew, and so that
// SIGTERM ends it in any case. A thread of its own; it sleeps while the loop sleeps.
#pragma once

#include "common/log.h"
#include "common/nsec.h"
#include "producer/ground/loop.h"

struct watchdog;

struct watchdog_options {
    struct loop *loop; // borrowed, as everything here
    int signal_fd;     // signalfd with the signals that the loop takes
    int lock_fd;       // unlocked at the end, for the next one; -1: none
    const char *name;  // for the last line: "mmtrace"
    nsec_t loop_max;   // that one round of the loop may take; 0: the default
    nsec_t signal_max; // that a signal may wait for the loop; 0: the default
};

#define WATCHDOG_LOOP_MAX   (60 * NSEC_PER_SEC)
#define WATCHDOG_SIGNAL_MAX (5 * NSEC_PER_SEC)

int watchdog_new(const struct watchdog_options *options, struct watchdog **ret);
struct watchdog *watchdog_free(struct watchdog *watchdog);
