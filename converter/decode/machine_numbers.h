// SPDX-License-Identifier: Apache-2.0
//
// The machines of a trace. The tracing service runs on one, the host; others are connected to it,
// and their packets carry a number. Here they are numbered in order of appearance; 0 is the host,
// or the only machine of a trace that has nothing of the host.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/vec.h"
#include "converter/decode/clocks.h"

#define MACHINES_MAX 64

struct trace_machine {
    uint32_t raw_id;           // as the trace has it; 0: the host
    uint32_t default_clock;    // of packets that name none; 0: the trace's
    bool has_conversions;      // see machine_connect()
    int64_t last_ftrace_clock; // of the clock pair added last
    uint8_t *seen_cpus;        // owned, a byte each; NULL: none
    bool has_ftrace_start;
    int64_t ftrace_start; // moment from which all processors' ftrace data is complete
};
VEC_DEFINE(trace_machine_vec, struct trace_machine);

// All zero has none.
struct trace_machines {
    struct trace_machine_vec items;
    bool host_seen, settled;
};

#define MACHINE_NONE UINT32_MAX

// The machine of a packet. MACHINE_NONE: there are too many, or memory is out. `is_marker` is for
// packets that say nothing of who wrote them.
uint32_t machines_get(struct trace_machines *machines, uint32_t raw_id, bool is_marker);

static inline struct trace_machine *machine_at(const struct trace_machines *machines,
                                               uint32_t machine)
{
    return &machines->items.items[machine];
}

// Whether this is the first packet of that processor.
bool machine_cpu_first(struct trace_machine *machine, uint32_t cpu);

// To be called before the first conversion of a machine's times: if nothing relates its clocks to
// the trace's, the real time is taken to be the same on both, or else the time since boot. True:
// *ret_readings are the two that were set equal, as snapshot *ret_id.
bool machine_connect(struct clocks *clocks, uint32_t machine, struct clock_reading ret_readings[2],
                     uint32_t *ret_id);

void trace_machines_done(struct trace_machines *machines);
