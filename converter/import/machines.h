// SPDX-License-Identifier: Apache-2.0
//
// The state of a conversion that is of one machine. A trace may be of several; what is handed to
// importers is always of the machine at hand (import.h), and modules that keep numbers of threads,
// tracks and the like for all machines are told which that is.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/import/process/pid_namespaces.h"
#include "converter/import/process/sched_slices.h"

struct import;

struct machine {
    uint32_t number; // 0: the host
    uint32_t raw_id; // in the trace
    struct sched sched;
    struct pid_namespaces pid_namespaces;
    bool *cpus;               // owned, CPUS_MAX: those that were seen
    uint32_t page_size;       // bytes
    const char *architecture; // as uname(2) calls it, in strings; NULL: not known
    // Owned, by importer. Importers that share a state, and those that have one for all machines,
    // have the same pointer several times.
    void **states;
    bool is_started; // its importers are
};
VEC_DEFINE(machine_vec, struct machine *);

// Makes `number`, if it is new, the machine at hand. 0 or -ENOMEM.
int machines_enter(struct import *im, uint32_t number, uint32_t raw_id);

// Functions of importers that are called for each machine.
enum machine_hook { MACHINE_START, MACHINE_INDEXED, MACHINE_FINISH };

// Calls that function of all importers for the machine at hand. Stops at the first negative.
int machine_call(struct import *im, enum machine_hook hook);

// Calls `each` for every machine, which is the one at hand meanwhile. Stops at the first negative.
int machines_each(struct import *im, int (*each)(struct import *im));

void machines_done(struct import *im);
