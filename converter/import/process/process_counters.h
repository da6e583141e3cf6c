// SPDX-License-Identifier: Apache-2.0
//
// Counters of processes that events report for a thread (rss_stat, oom_score_adj). The thread's
// process may become known later.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"

struct import;

// Subjects of counters.
enum process_counter {
    PROCESS_COUNTER_MEMORY,
    PROCESS_COUNTER_OOM_SCORE,
    PROCESS_COUNTER_MM_EVENT
};

struct waiting_track {
    uint32_t track; // track of the thread, in place of a track of the process
    int64_t utid;
    enum process_counter counter;
    const char *key, *metric;
};
VEC_DEFINE(waiting_track_vec, struct waiting_track);

struct process_counter_kind {
    enum process_counter counter;
    const char *key, *metric; // static, compared by address
};
VEC_DEFINE(process_counter_kind_vec, struct process_counter_kind);

struct process_counters {
    struct waiting_track_vec waiting;
    struct process_counter_kind_vec kinds;
    struct map64 tracks; // kind and process or thread -> track; known tracks need no name
    struct map64 sets;   // thread -> arg set of its values
};

// Adds a value. `key` (and `metric`, for mm events) are static texts.
void process_counter_push(struct import *im, int64_t ts, int64_t utid, enum process_counter counter,
                          const char *key, const char *metric, double value);

// Returns the track of a process, for values that events report for a process.
uint32_t process_counter_track(struct import *im, int64_t upid, enum process_counter counter,
                               const char *key, const char *metric);
