// SPDX-License-Identifier: Apache-2.0
//
// Limits on the recorder's own consumption: max_heapprofd_memory_kb and max_heapprofd_cpu_secs.
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

// Checks once per second. Returns true, once, if the process exceeds a limit.
bool heap_guard_check(struct heap_guard *guard, nsec_t now);
