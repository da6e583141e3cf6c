// SPDX-License-Identifier: Apache-2.0
//
// Reclaim and compaction in a trace, from kernel events: the times of work, and the processes that
// waited.
#pragma once

#include "common/map.h"
#include "converter/verdict/intervals.h"
#include "converter/verdict/subject.h"

// Pauses shorter than this do not end a time in which memory was short.
#define PRESSURE_GAP NSEC_PER_SEC

enum work { WORK_DIRECT, WORK_MEMCG, WORK_COMPACTION, WORK_KSWAPD, N_WORK };

// All work of one kind.
struct work_sum {
    int64_t n;
    int64_t n_not_kept; // besides: counted by the recorder, not in the trace
    int64_t dur;
    bool recorded; // the trace has such events, or was to have them
};

// The waits of one process, or of one thread whose process is not known.
struct waiter {
    int64_t upid, utid; // upid -1: not known; utid: of its longest wait
    int64_t n[N_WORK];  // without kswapd
    int64_t dur;        // in all
    int64_t longest, longest_ts;
    enum work longest_work;
};
VEC_DEFINE(waiter_vec, struct waiter);

struct reclaim {
    struct work_sum work[N_WORK];
    struct waiter_vec waiters; // the longest in all first
    struct intervals any;      // reclaim, kswapd at work, and compaction next to them; merged over
                               // PRESSURE_GAP; without reclaim and kswapd, compaction alone
    struct intervals compactions; // one by one
    struct intervals kswapd;      // runs of it, merged where they overlap
    int64_t last_ts;              // last event; 0: none
    bool is_partial;              // events did not fit into a buffer: there were more
    bool has_gaps;                // the kernel overwrote events: durations mean nothing
};

// The caller passes all zeros. Failures are in subject->code.
void reclaim_read(struct reclaim *reclaim, struct subject *subject);
void reclaim_done(struct reclaim *reclaim);
