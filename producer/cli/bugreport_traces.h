// SPDX-License-Identifier: Apache-2.0
//
// The traces of a bugreport: snapshots of running sessions, and the newest finished traces.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "producer/service/armed/bugreport_zip.h"
#include "producer/service/armed/trace_history.h"

#define REPORTED_SESSIONS_MAX 16
#define REPORTED_FINISHED_MAX 40
#define REPORTED_FOLDERS_MAX  16

struct reported_trace {
    char *name;      // owned: the entry
    char about[256]; // a description for people
    int fd;          // owned, for reading; -1: none
};
VEC_DEFINE(reported_traces, struct reported_trace);

struct report_options {
    struct trace_history_limits history;
    const char *folders[REPORTED_FOLDERS_MAX]; // folders of finished traces, in place of the usual
                                               // folders
    size_t n_folders;
};

// Adds the traces to the report, and the findings to the report's index. Fails only if writing the
// zip fails. If *ret is empty, `why` has the reason and a hint; otherwise `why` is empty.
int bugreport_traces_add(struct bugreport *report, const struct report_options *options,
                         struct reported_traces *ret, struct err *why, struct err *err);
void bugreport_traces_done(struct reported_traces *traces); // fit for CLEANUP()
