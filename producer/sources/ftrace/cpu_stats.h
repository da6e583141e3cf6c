// SPDX-License-Identifier: Apache-2.0
//
// per_cpu/cpuN/stats: what the kernel counts about one CPU's ring buffer.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

struct cpu_stats {
    uint64_t cpu, entries, overrun, commit_overrun, bytes, dropped_events, read_events;
    double oldest_event_ts, now_ts; // seconds of the trace clock
};

// Lines that are not known are passed over. False if there is none that is.
bool cpu_stats_parse(const char *text, size_t size, struct cpu_stats *ret);

// Writes one FtraceStats.cpu_stats.
void cpu_stats_write(const struct cpu_stats *stats, struct wire_writer *w);

#define CPU_STATS_ROOM 96 // bytes that one takes at most

// Nanoseconds of the "now ts" line, in whichever form the clock has it; 0: there is none.
int64_t cpu_stats_now(const char *text, size_t size);
