// SPDX-License-Identifier: Apache-2.0
//
// Opens the kernel's events: one group of the timebase and its followers for each CPU.
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/vec.h"
#include "producer/sources/perf/perf_settings.h"

struct perf_cpu_events {
    uint32_t cpu;
    int fds[PERF_COUNTS_MAX]; // owned; the first is the group's
    size_t n;
};
VEC_DEFINE(perf_cpu_events_vec, struct perf_cpu_events);

#define PERF_STACK_BYTES 32768 // copied of a stack

// Opens the events, which do not count yet. *ret_clock is the clock of the records, which can be
// another one than the config's. Returns 0 or a negative errno with text.
int perf_events_open(const struct perf_settings *settings, const struct source_roots *roots,
                     struct perf_cpu_events_vec *ret, clockid_t *ret_clock, struct err *err);
void perf_events_enable(const struct perf_cpu_events_vec *events, bool enable);
void perf_events_close(struct perf_cpu_events_vec *events);

// Returns the parts of a record.
struct perf_layout perf_events_layout(const struct perf_settings *settings);
