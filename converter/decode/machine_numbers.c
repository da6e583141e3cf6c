// SPDX-License-Identifier: Apache-2.0
//
// Many modules have state for each machine, so the number of machines is limited. Real traces are
// far below the limit. The start of a processor's data is in the processor's first bundle.
// SEEN_CPUS bytes note which processors had a bundle.
#include "converter/decode/machine_numbers.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

#define SEEN_CPUS 4096

static uint32_t machine_add(struct trace_machines *machines, uint32_t raw_id)
{
    struct trace_machine machine = {.raw_id = raw_id};
    if (machines->items.n)
        machine.default_clock = machines->items.items[0].default_clock;
    if (machines->items.n >= MACHINES_MAX || trace_machine_vec_push(&machines->items, machine) < 0)
        return MACHINE_NONE;
    return (uint32_t)machines->items.n - 1;
}

uint32_t machines_get(struct trace_machines *machines, uint32_t raw_id, bool is_marker)
{
    if (!machines->items.n && machine_add(machines, 0) == MACHINE_NONE)
        return MACHINE_NONE;
    struct trace_machine *first = &machines->items.items[0];
    if (!raw_id) {
        machines->host_seen |= !is_marker;
        return 0;
    }
    // A trace that begins with packets of another machine has no packets of the host. This machine
    // gets number 0.
    if (!machines->settled && !machines->host_seen)
        first->raw_id = raw_id;
    machines->settled = true;
    for (uint32_t i = 0; i < machines->items.n; i++)
        if (machines->items.items[i].raw_id == raw_id)
            return i;
    return machine_add(machines, raw_id);
}

bool machine_cpu_first(struct trace_machine *machine, uint32_t cpu)
{
    if (!machine->seen_cpus)
        machine->seen_cpus = memory_calloc(SEEN_CPUS, 1);
    if (!machine->seen_cpus || cpu >= SEEN_CPUS || machine->seen_cpus[cpu])
        return false;
    machine->seen_cpus[cpu] = 1;
    return true;
}

bool machine_connect(struct clocks *clocks, uint32_t machine, struct clock_reading ret_readings[2],
                     uint32_t *ret_id)
{
    clock_key_t trace = clocks->trace_clock, boot = clock_key(CLOCK_ID_BOOTTIME, 0, machine);
    clock_key_t real = clock_key(CLOCK_ID_REALTIME, 0, machine);
    clock_key_t trace_real = clock_key(CLOCK_ID_REALTIME, 0, clock_machine_of(trace));
    if (clocks_connected(clocks, boot, trace))
        return false;
    clock_key_t from = boot, to = trace;
    if (real != trace_real && clocks_connected(clocks, boot, real) &&
        clocks_connected(clocks, trace_real, trace)) {
        from = real;
        to = trace_real;
    } else if (clocks->has_default && clock_id_of(trace) != CLOCK_ID_BOOTTIME) {
        return false; // only boot-time clocks are assumed to be equal
    }
    const struct clock_reading readings[] = {
        {.clock = from, .unit_ns = 1},
        {.clock = to, .unit_ns = 1},
    };
    if (clocks_add(clocks, readings, 2, ret_id) < 0)
        return false;
    memcpy(ret_readings, readings, sizeof(readings));
    return true;
}

void trace_machines_done(struct trace_machines *machines)
{
    vec_foreach(&machines->items, machine)
        free(machine->seen_cpus);
    trace_machine_vec_done(&machines->items);
}
