// SPDX-License-Identifier: Apache-2.0
//
// The common parts of commands that record in their own process: signals as events of the loop,
// helpers, and heap profiles.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include "common/err.h"
#include "common/log.h"
#include "common/nsec.h"
#include "producer/ground/loop.h"
#include "producer/service/config/config.h"
#include "producer/sources/source.h"

struct heap_host_options;

// The first end signal ends a command in order, the second at once.
struct signals {
    int fd;          // owned; a signalfd; -1: signals are not watched
    sigset_t ends;   // end signals
    sigset_t former; // signals that were blocked before
    nsec_t first;    // time of the first end signal, by CLOCK_MONOTONIC; 0: none yet
};

// Blocks `ends`, the signals that end the command, and `others` (0 ends each list). Opens the
// descriptor that receives them. Afterwards a closed pipe and a file-size limit are write errors.
// Returns 0 or a negative errno with text.
int signals_watch(struct signals *signals, const int *ends, const int *others, struct err *err);

// Returns the number of the next signal, or 0. Skips an end signal that only repeats the first.
int signals_take(struct signals *signals);

struct recording {
    struct source_roots roots;
    const struct log *log; // borrowed
    struct signals signals;
    struct rlimit former_fds; // limits of descriptors before recording_open()
    // Owned.
    struct loop *loop;
    struct loop_io *signal_io;
    struct foreign *foreign;
    struct heap_host *heap_host;
};

// Raises a soft limit of descriptors below 4096 to 4096, or to the hard limit if that is lower:
// each CPU, client and file takes descriptors. Makes the loop, which calls `signal_ready` for each
// signal. Returns 0 or a negative errno with text.
int recording_open(struct recording *recording, loop_fn signal_ready, void *userdata,
                   struct err *err);

// Makes helpers and heap profiles, and stores them in `roots`. Completes `options`. Returns 0 or a
// negative errno with text.
int recording_help(struct recording *recording, struct heap_host_options *options, struct err *err);

// Undoes signals_watch() and the new limit in a child process.
void recording_give_back(const struct recording *recording);

void recording_done(struct recording *recording);

// Prints the config to standard output. Returns an exit code.
int recording_print_config(const struct config *config, struct err *err);
