// SPDX-License-Identifier: Apache-2.0
//
// The machines of a trace. The tracing service runs on the host. Other machines are connected to
// the service, and their packets carry an id. Here, machines are numbered in order of appearance; 0
// is the host, or the first machine of a trace without packets of the host.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/vec.h"
#include "converter/decode/clocks.h"

#define MACHINES_MAX 64

struct trace_machine {
    uint32_t raw_id;           // machine id in the trace; 0: the host
    uint32_t default_clock;    // clock of packets that name no clock; 0: trace clock
    bool has_conversions;      // see machine_connect()
    int64_t last_ftrace_clock; // clock value of the last added clock pair
    uint8_t *seen_cpus;        // owned, a byte for each processor; NULL: none
    bool has_ftrace_start;
    int64_t ftrace_start; // trace time from which all processors' ftrace data is complete
};
VEC_DEFINE(trace_machine_vec, struct trace_machine);

// All zero: no machines.
struct trace_machines {
    struct trace_machine_vec items;
    bool host_seen, settled;
};

#define MACHINE_NONE UINT32_MAX

// Returns the machine of a packet; MACHINE_NONE if the trace has too many machines, or memory is
// out. `is_marker`: the packet is a synchronization marker, which does not name its machine.
uint32_t machines_get(struct trace_machines *machines, uint32_t raw_id, bool is_marker);

static inline struct trace_machine *machine_at(const struct trace_machines *machines,
                                               uint32_t machine)
{
    return &machines->items.items[machine];
}

// Returns true for the first bundle of a processor.
bool machine_cpu_first(struct trace_machine *machine, uint32_t cpu);

// Called before the first conversion of a machine's times. If no snapshot connects the machine's
// clocks with the trace clock, the function adds a snapshot that equates the real-time clocks of
// both machines, or else the boot-time clocks. Returns true if the snapshot was added:
// *ret_readings are its readings, *ret_id is its number.
bool machine_connect(struct clocks *clocks, uint32_t machine, struct clock_reading ret_readings[2],
                     uint32_t *ret_id);

void trace_machines_done(struct trace_machines *machines);
