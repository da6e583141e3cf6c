// SPDX-License-Identifier: Apache-2.0
//
// The thread that each CPU runs (the sched_slice table and thread_state), from sched_switch.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"

struct import;

struct sched_cpu {
    bool running; // a slice is open
    int64_t slice_id, slice_ts;
    int32_t slice_priority;
    // The thread of the last switch; last_utid UTID_NONE: no switch so far.
    int64_t last_utid, last_tid;
    int32_t last_priority;
};
VEC_DEFINE(sched_cpu_vec, struct sched_cpu);

// Returns the state of a CPU; adds a new state if needed. NULL: memory ran out.
struct sched_cpu *sched_cpu_get(struct import *im, uint32_t cpu);

struct sched_switch {
    int64_t ts;
    uint32_t cpu;
    int64_t prev_utid, prev_tid, next_utid, next_tid;
    int32_t next_priority;
    int64_t prev_state;
};

void sched_switch(struct import *im, struct sched_cpu *state, const struct sched_switch *event);
// Writes a switch whose `prev_state` is a text that lives as long as the conversion; NULL: the
// state is not known.
void sched_switch_as(struct import *im, struct sched_cpu *state, const struct sched_switch *event,
                     const char *prev_state);

// Writes a slice of a thread. `end_state` NULL: not known; `dur` -1: the slice did not end.
void sched_slice_write(struct import *im, uint32_t cpu, const struct sched_cpu *slice, int64_t dur,
                       const char *end_state);
