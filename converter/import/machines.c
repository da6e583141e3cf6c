// SPDX-License-Identifier: Apache-2.0
//
// See machines.h.
#include "converter/import/machines.h"

#include <errno.h>
#include <stdlib.h>

#include "common/elements.h"
#include "common/memory.h"
#include "converter/import/android/modem.h"
#include "converter/import/etw/etw.h"
#include "converter/import/ftrace/ftrace.h"
#include "converter/import/importer.h"
#include "converter/import/v8/v8.h"

#define PAGE_SIZE_DEFAULT 4096

static void machine_free(struct machine *machine)
{
    for (size_t i = 0; machine->states && i < n_importers; i++) {
        if (machine->states[i] && importers[i]->done)
            importers[i]->done(machine->states[i]);
        free(machine->states[i]);
    }
    free(machine->states);
    free(machine->cpus);
    sched_done(&machine->sched);
    pid_namespaces_done(&machine->pid_namespaces);
    track_events_done(&machine->track_events);
    map64_done(&machine->async_names);
    machine->etw = etw_free(machine->etw);
    machine->modem = modem_free(machine->modem);
    machine->v8 = v8_free(machine->v8);
    gpu_events_done(&machine->gpu_events);
    for (size_t i = 0; i < ELEMENTS(machine->vulkan_names); i++)
        map64_done(&machine->vulkan_names[i]);
    free(machine);
}

static bool states_make(struct machine *machine)
{
    machine->states = memory_calloc(n_importers, sizeof(*machine->states));
    for (size_t i = 0; machine->states && i < n_importers; i++) {
        if (machine->number && importers[i]->of_all_machines)
            continue;
        machine->states[i] = memory_calloc(1, importers[i]->state_size + 1);
        if (!machine->states[i])
            return false;
    }
    return machine->states != NULL;
}

static int machine_add(struct import *im)
{
    struct machine *machine = memory_calloc(1, sizeof(*machine));
    if (!machine)
        return -ENOMEM;
    machine->number = (uint32_t)im->machines.n;
    machine->page_size = PAGE_SIZE_DEFAULT;
    machine->cpus = memory_calloc(CPUS_MAX, sizeof(*machine->cpus));
    if (!machine->cpus || !states_make(machine) || machine_vec_push(&im->machines, machine) < 0) {
        machine_free(machine);
        return -ENOMEM;
    }
    return 0;
}

int machines_enter(struct import *im, uint32_t number, uint32_t raw_id)
{
    int r = 0;
    while (r == 0 && im->machines.n <= number)
        r = machine_add(im);
    if (r < 0)
        return r;
    im->machine = im->machines.items[number];
    im->machine->raw_id = raw_id;
    im->tracks.machine = im->metadata.machine = number;
    im->thread_states.idle_utid = processes_enter_machine(&im->processes, number);
    r = stats_enter_machine(&im->stats, number);
    return r < 0 ? r : im->processes.failure;
}

void *machine_state(const struct import *im, size_t importer)
{
    void *own = im->machine->states[importer];
    return own ? own : im->machines.items[0]->states[importer];
}

int machines_each(struct import *im, int (*each)(struct import *im))
{
    int r = 0;
    for (uint32_t i = 0; i < im->machines.n && r == 0; i++) {
        r = machines_enter(im, i, im->machines.items[i]->raw_id);
        if (r == 0)
            r = each(im);
    }
    return r < 0 ? r : machines_enter(im, 0, im->machines.items[0]->raw_id);
}

void machines_done(struct import *im)
{
    vec_foreach(&im->machines, machine)
        machine_free(*machine);
    machine_vec_done(&im->machines);
}
