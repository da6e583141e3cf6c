// SPDX-License-Identifier: Apache-2.0
//
// FtraceEventBundle: the events of one processor in up to three runs: single events, and the
// compact forms of sched_switch and sched_waking. Each run has its own order. bundle_measure()
// measures a run once; run_open() and run_next() walk the run later.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"
#include "protos/fields.h"

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
    bool has_clock_pair; // clock_value and boot_value are set
    int64_t clock_value; // reading of the bundle's clock
    int64_t boot_value;  // reading of CLOCK_BOOTTIME at the same moment
    bool has_start;      // start is set
    int64_t start;       // time from which this processor's data is complete
    bool has_descriptors;
    bool ordered;       // events of equal time keep the order of bundles, not of processors
    uint64_t n_untimed; // events without time stamp, which are left out
    struct run_measure runs[N_RUN_KINDS];
    struct wire_reader messages[N_RUN_KINDS]; // argument of run_open() for each run
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

// Opens a run. `message` and `sorted` come from bundle_measure(). An unsorted run is read into
// memory and sorted. Returns NULL if memory is out.
struct run *run_open(struct wire_reader message, enum run_kind kind, bool sorted);

// Reads the next record. Returns false at the end and at damage. bundle_measure() has already
// reported the damage.
bool run_next(struct run *run, struct run_record *ret);
struct run *run_free(struct run *run);
