// SPDX-License-Identifier: Apache-2.0
//
// per_cpu/cpuN/stats: the kernel's counters of one CPU's ring buffer.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

struct cpu_stats {
    uint64_t cpu, entries, overrun, commit_overrun, bytes, dropped_events, read_events;
    double oldest_event_ts, now_ts; // seconds of the trace clock
};

// Parses the text. Skips unknown lines. Returns false if the text is of another kind.
bool cpu_stats_parse(const char *text, size_t size, struct cpu_stats *ret);

// Writes one FtraceStats.cpu_stats.
void cpu_stats_write(const struct cpu_stats *stats, struct wire_writer *w);

#define CPU_STATS_ROOM 96 // maximum bytes of one cpu_stats

// Returns the nanoseconds of the "now ts" line in any of the clock's formats; 0: no such line.
int64_t cpu_stats_now(const char *text, size_t size);
