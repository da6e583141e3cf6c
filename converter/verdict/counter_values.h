// SPDX-License-Identifier: Apache-2.0
//
// Counters of the machine in a trace, for the rules of the verdict.
#pragma once

#include "converter/verdict/subject.h"

struct counter_range {
    bool found;         // the trace has such counters
    double first, last; // sum over all matching tracks
};

// Returns the first and last values of the counters of `type` whose names match `glob`.
struct counter_range counters_range(struct subject *subject, const char *type, const char *glob);

// Returns the growth of vmstat counters, or 0 if the counters fell or are missing.
int64_t vmstat_growth(struct subject *subject, const char *glob);

// The pages that the kernel scanned or reclaimed (view reclaim_counter).
struct reclaim_growth {
    bool found;
    int64_t pages;
    bool has_memcg; // the pages include those of memory cgroups
};

// Returns the growth of all reclaim. `quantity` is "scanned" or "reclaimed".
struct reclaim_growth reclaim_growth(struct subject *subject, const char *quantity);

struct counter_low {
    bool found;
    int64_t ts;
    double value, first;
};

// Returns the lowest value of one counter between two times, and its first value in the trace.
struct counter_low counter_lowest(struct subject *subject, const char *type, const char *name,
                                  int64_t from, int64_t to);

// Calls `each` for each pair of consecutive readings of the matching counters, track by track, in
// order of time.
void counters_steps(struct subject *subject, const char *type, const char *glob,
                    void (*each)(void *userdata, int64_t ts, int64_t end, double change),
                    void *userdata);

// Calls `each` in the same way for the pages that were scanned in memory cgroups, if the counters
// of vmstat tell them: all scanned pages without those that kswapd, tasks and others scanned for
// the whole machine.
void memcg_scan_steps(struct subject *subject,
                      void (*each)(void *userdata, int64_t ts, int64_t end, double change),
                      void *userdata);
