// SPDX-License-Identifier: Apache-2.0
//
// Limits on what the recorder itself needs: max_heapprofd_memory_kb and max_heapprofd_cpu_secs.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/nsec.h"

struct heap_guard {
    uint64_t max_memory_kb, max_cpu_secs; // 0: no limit
    nsec_t cpu_start, due;
    bool hit;
};

void heap_guard_start(struct heap_guard *guard, uint64_t max_memory_kb, uint64_t max_cpu_secs);

// Looks once a second. True, once: the process needs more than it may.
bool heap_guard_check(struct heap_guard *guard, nsec_t now);
