// SPDX-License-Identifier: Apache-2.0
//
// Counters of the machine in a trace, for the rules of the verdict.
#pragma once

#include "converter/verdict/subject.h"

struct counter_range {
    bool found;         // in the trace
    double first, last; // of all tracks that match, in sum
};

// First and last value of the counters of that type whose name matches (GLOB).
struct counter_range counters_range(struct subject *subject, const char *type, const char *glob);

// By how much counters of vmstat grew; 0 where they went back or are not there.
int64_t vmstat_growth(struct subject *subject, const char *glob);

struct counter_low {
    bool found;
    int64_t ts;
    double value, first;
};

// The lowest value of one counter between two moments, and its first value in the trace.
struct counter_low counter_lowest(struct subject *subject, const char *type, const char *name,
                                  int64_t from, int64_t to);

// Calls `each` for each pair of readings of the counters that match, track by track, in order of
// time.
void counters_steps(struct subject *subject, const char *type, const char *glob,
                    void (*each)(void *userdata, int64_t ts, int64_t end, double change),
                    void *userdata);
