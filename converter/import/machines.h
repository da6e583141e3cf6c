// SPDX-License-Identifier: Apache-2.0
//
// The state of a conversion that is of one machine. A trace may be of several; what is handed to
// importers is always of the machine at hand (import.h), and modules that keep numbers of threads,
// tracks and the like for all machines are told which that is.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/vec.h"

struct machine {
    uint32_t number;          // 0: the host
    uint32_t raw_id;          // in the trace
    bool *cpus;               // owned, CPUS_MAX: those that were seen
    uint32_t page_size;       // bytes
    uint32_t kernel_version;  // major << 16 | minor; 0: not known
    const char *architecture; // as uname(2) calls it, in strings; NULL: not known
    // Owned, by importer. Importers that share a state, and those that have one for all machines,
    // have the same pointer several times.
    void **states;
    bool is_started; // its importers are
};
VEC_DEFINE(machine_vec, struct machine *);
