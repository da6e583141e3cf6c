// SPDX-License-Identifier: Apache-2.0
//
// Reclaim and compaction in a trace, from kernel events: the times of work, and the processes that
// waited.
#pragma once

#include "common/map.h"
#include "converter/verdict/intervals.h"
#include "converter/verdict/subject.h"

// Pauses up to this length do not end a time in which memory was short.
#define PRESSURE_GAP NSEC_PER_SEC

enum work { WORK_DIRECT, WORK_MEMCG, WORK_COMPACTION, WORK_KSWAPD, N_WORK };

// All work of one kind.
struct work_sum {
    int64_t n;
    int64_t n_not_kept; // further work, counted by the recorder, not in the trace
    int64_t dur;
    bool recorded; // the trace has the events, or its config asks for them
};

// The waits of one process, or of one thread whose process is unknown.
struct waiter {
    int64_t upid;      // -1: unknown
    int64_t utid;      // thread of the longest wait
    int64_t n[N_WORK]; // by kind of work; kswapd's is 0
    int64_t dur;       // sum of all waits
    int64_t reclaim;   // the part of `dur` in direct and memcg reclaim
    int64_t longest, longest_ts;
    enum work longest_work;
};
VEC_DEFINE(waiter_vec, struct waiter);

struct reclaim {
    struct work_sum work[N_WORK];
    struct waiter_vec waiters; // in the order of `dur`, longest first
    struct intervals any;      // reclaim, kswapd at work, and compaction next to them; merged over
                               // PRESSURE_GAP; without reclaim and kswapd, compaction alone
    struct intervals compactions; // each compaction
    struct intervals kswapd;      // runs of kswapd, merged if they overlap
    int64_t last_ts;              // last event; 0: none
    bool is_partial;              // events did not fit into a buffer: the trace lacks some
    bool has_gaps;                // the kernel overwrote events: durations are not reliable
};

// Reads the reclaim of a trace. The caller passes *reclaim with all zeros. Failures are in
// subject->code.
void reclaim_read(struct reclaim *reclaim, struct subject *subject);
void reclaim_done(struct reclaim *reclaim);
