// SPDX-License-Identifier: Apache-2.0
//
// An importer's number is its row in importers.c. A hash table by the importer's address finds the
// number. The table has at least twice as many places as importers.
#include "converter/import/importer_states.h"

#include <errno.h>
#include <stdlib.h>

#include "common/memory.h"
#include "converter/import/importer.h"

#define PAGE_SIZE_DEFAULT 4096

void importers_index(struct import *im)
{
    _Static_assert(IMPORTER_PLACES > 0 && (IMPORTER_PLACES & (IMPORTER_PLACES - 1)) == 0,
                   "a power of two");
    for (size_t i = 0; i < n_importers; i++) {
        const struct importer *importer = importers[i];
        size_t place = importer_place(importer);
        while (im->places[place].importer)
            place = (place + 1) % IMPORTER_PLACES;
        im->places[place] = (struct importer_number){importer, (uint16_t)i};
        if (importer->field)
            im->importer_of[importer->field] = (uint8_t)(i + 1);
    }
}

// Returns true if the state belongs to this machine and this importer alone.
static bool has_own_state(const struct machine *machine, const struct importer *importer)
{
    return !importer->shares && !(machine->number && importer->of_all_machines);
}

static void machine_free(struct machine *machine)
{
    for (size_t i = 0; machine->states && i < n_importers; i++) {
        if (!machine->states[i] || !has_own_state(machine, importers[i]))
            continue;
        if (importers[i]->done)
            importers[i]->done(machine->states[i]);
        free(machine->states[i]);
    }
    free(machine->states);
    free(machine->cpus);
    free(machine);
}

static bool states_make(const struct import *im, struct machine *machine)
{
    void **states = machine->states = memory_calloc(n_importers, sizeof(*states));
    for (size_t i = 0; states && i < n_importers; i++) {
        if (importers[i]->shares)
            continue;
        states[i] = has_own_state(machine, importers[i])
                        ? memory_calloc(1, importers[i]->state_size + 1)
                        : im->machines.items[0]->states[i];
        if (!states[i])
            return false;
    }
    for (size_t i = 0; states && i < n_importers; i++)
        if (importers[i]->shares)
            states[i] = states[importer_index(im, importers[i]->shares)];
    return states != NULL;
}

static int machine_add(struct import *im)
{
    struct machine *machine = memory_calloc(1, sizeof(*machine));
    if (!machine)
        return -ENOMEM;
    machine->number = (uint32_t)im->machines.n;
    machine->page_size = PAGE_SIZE_DEFAULT;
    machine->cpus = memory_calloc(CPUS_MAX, sizeof(*machine->cpus));
    if (!machine->cpus || !states_make(im, machine) ||
        machine_vec_push(&im->machines, machine) < 0) {
        machine_free(machine);
        return -ENOMEM;
    }
    return 0;
}

static void machine_call(struct import *im, enum machine_hook hook)
{
    for (size_t i = 0; i < n_importers && !import_failed(im); i++) {
        const struct importer *importer = importers[i];
        void (*const hooks[])(struct import *, void *) = {
            [MACHINE_START] = importer->start,
            [MACHINE_INDEXED] = importer->indexed,
            [MACHINE_FINISH] = importer->finish,
            [MACHINE_WRITE] = importer->write,
        };
        if (hooks[hook] && has_own_state(im->machine, importer))
            hooks[hook](im, im->machine->states[i]);
    }
}

void machines_enter(struct import *im, uint32_t number, uint32_t raw_id)
{
    while (im->machines.n <= number && !import_failed(im))
        import_fail(im, machine_add(im));
    if (import_failed(im))
        return;
    im->machine = im->machines.items[number];
    im->machine->raw_id = raw_id;
    im->tracks.machine = im->metadata.machine = number;
    im->thread_states.idle_utid = processes_enter_machine(&im->processes, number);
    stats_enter_machine(&im->stats, number);
    if (!im->machine->is_started) {
        im->machine->is_started = true;
        machine_call(im, MACHINE_START);
    }
}

void machines_call(struct import *im, enum machine_hook hook)
{
    for (uint32_t i = 0; i < im->machines.n && !import_failed(im); i++) {
        machines_enter(im, i, im->machines.items[i]->raw_id);
        machine_call(im, hook);
    }
    machines_enter(im, 0, im->machines.items[0]->raw_id);
}

void machines_done(struct import *im)
{
    vec_foreach(&im->machines, machine)
        machine_free(*machine);
    machine_vec_done(&im->machines);
}
