// SPDX-License-Identifier: Apache-2.0
//
// Opens the kernel's events: one group of the timebase and its followers for each CPU, or for each
// CPU and thread of the chosen processes.
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/vec.h"
#include "producer/sources/perf/perf_settings.h"

struct perf_cpu_events {
    uint32_t cpu;
    int32_t tid;              // -1: of all threads
    int output_fd;            // the event that has the ring of this CPU; borrowed; -1: this one
    int fds[PERF_COUNTS_MAX]; // owned; the first is the group's
    size_t n;
};
VEC_DEFINE(perf_cpu_events_vec, struct perf_cpu_events);

struct perf_opened {
    struct perf_cpu_events_vec events;
    clockid_t clock;   // of the records; may differ from the config's clock
    bool is_user_only; // this program may not see the kernel's part
};

#define PERF_STACK_BYTES 16384 // copied of a stack

// Opens the events, which do not count yet. *ret is all zero. Returns 0 or a negative errno with
// text; call perf_events_close() in each case.
int perf_events_open(const struct perf_settings *settings, const struct source_roots *roots,
                     struct perf_opened *ret, struct err *err);
// Connects each event to the ring of its CPU. Call it when all rings are mapped. Returns 0 or a
// negative errno.
int perf_events_connect(const struct perf_opened *opened);
void perf_events_enable(const struct perf_opened *opened, bool enable);
void perf_events_close(struct perf_opened *opened);

// Returns the parts of a record.
struct perf_layout perf_events_layout(const struct perf_settings *settings);
