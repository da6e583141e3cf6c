// SPDX-License-Identifier: Apache-2.0
//
// The state of a conversion for one machine. A trace may cover several machines. Importers always
// get data of the current machine (import.h). Modules that number threads, tracks and other objects
// across machines get the number of the current machine.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/vec.h"

struct machine {
    uint32_t number;          // 0: the host
    uint32_t raw_id;          // in the trace
    bool *cpus;               // owned, CPUS_MAX: true if the CPU was seen
    uint32_t page_size;       // bytes
    uint32_t kernel_version;  // major << 16 | minor; 0: not known
    const char *architecture; // name from uname(2), in strings; NULL: not known
    // Owned, by importer. A shared state appears several times.
    void **states;
    bool is_started; // its importers have started
};
VEC_DEFINE(machine_vec, struct machine *);
