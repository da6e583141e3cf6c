// SPDX-License-Identifier: Apache-2.0
//
// The command line of `mmtrace daemon`.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "producer/ground/options.h"
#include "producer/service/armed/armed.h"
#include "producer/service/armed/memory_watch.h"

#define DAEMON_ARMED_FOLDER  MMTRACE_SYSCONFDIR "/mmtrace/armed"
#define DAEMON_STATE_FOLDER  "/var/lib/mmtrace"
#define DAEMON_TRACES_FOLDER DAEMON_STATE_FOLDER "/traces" // the default folder

// Borrowed from argv or constant, except for members marked as owned.
struct daemon_options {
    struct armed_place armed[ARMED_PLACES_MAX];
    size_t n_armed;
    bool armed_is_default; // no option named a place
    const char *state_folder;
    char *output_folder; // owned
    const char *run_folder;
    const char *events[KMEM_WATCH_EVENTS_MAX + 1]; // NULL-terminated
    char *event_list; // owned: the text behind the pointers in `events`; NULL: the default
    const char *psi[KMEM_WATCH_PSI_MAX + 1]; // NULL-terminated
    bool psi_is_default;                     // no option named a threshold
    nsec_t rest, rest_max;
    uint32_t keep_files;
    uint64_t keep_bytes;
    const char *consumer_group; // NULL: root only
    bool no_ipc, no_perfetto_sockets, quiet;
};

extern const struct cli_command daemon_command; // without `run`

// Returns the result of cli_command_parse(). Call daemon_options_done() in each case.
int daemon_options_parse(int argc, char **argv, struct daemon_options *ret, struct err *err);
void daemon_options_done(struct daemon_options *options);
