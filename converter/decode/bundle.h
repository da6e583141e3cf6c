// SPDX-License-Identifier: Apache-2.0
//
// FtraceEventBundle: the events of one processor, in up to three runs of their own order: single
// events, and the compact forms of sched_switch and sched_waking. A run is measured once
// (bundle_measure) and walked later (run_open, run_next).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"
#include "protos/fields.h"

// Fields of FtraceEvent that are not an event.

enum run_kind { RUN_SWITCH, RUN_WAKING, RUN_EVENTS, N_RUN_KINDS };

struct run_measure {
    int64_t min_ts, max_ts; // of the bundle's clock
    uint64_t n;             // events; 0: the bundle has no such run
    bool sorted;
};

struct bundle_measure {
    bool has_cpu, lost_events, damaged;
    uint32_t cpu;
    uint32_t clock;      // FtraceClock; 0: boot time
    bool has_clock_pair; // the two below are set
    int64_t clock_value; // what that clock showed ...
    int64_t boot_value;  // ... when CLOCK_BOOTTIME showed this
    bool has_start;      // start is set
    int64_t start;       // from where on this processor's data is complete
    bool has_descriptors;
    uint64_t n_untimed; // events without time stamp, which are left out
    struct run_measure runs[N_RUN_KINDS];
    struct wire_reader messages[N_RUN_KINDS]; // what run_open() takes for each
};

// Reads a whole bundle without storing anything.
void bundle_measure(struct wire_reader bundle, struct bundle_measure *ret);

struct sched_comm {
    const char *text; // borrowed
    uint32_t size;
};

// One record of a run. Fields beyond ts are of the run's kind.
struct run_record {
    int64_t ts; // of the bundle's clock
    union {
        struct wire_reader event; // RUN_EVENTS: FtraceEvent
        struct {
            int32_t next_pid, next_prio;
            int64_t prev_state;
            struct sched_comm comm;
        } sched_switch;
        struct {
            int32_t pid, target_cpu, prio;
            uint32_t common_flags;
            bool has_flags;
            struct sched_comm comm;
        } waking;
    };
};

struct run;

// `message` and `sorted` are as measured; a run that is not sorted is read into memory and sorted.
// NULL: no memory.
struct run *run_open(struct wire_reader message, enum run_kind kind, bool sorted);

// False at the end, also where the run breaks (bundle_measure() has told that).
bool run_next(struct run *run, struct run_record *ret);
struct run *run_free(struct run *run);
