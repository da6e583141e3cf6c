// SPDX-License-Identifier: Apache-2.0
//
// Memory means resident memory that is not shared. So the rings, which are shared with the programs
// and sized by the config, do not count. CPU time is that of the process since the profile began.
#include "producer/sources/heap/heap_guard.h"

#include <unistd.h>

#include "producer/ground/proc_text.h"

#define PERIOD NSEC_PER_SEC

static uint64_t own_memory_kb(void)
{
    char text[256];
    struct span rest = text_file_span(text, sizeof(text), "/proc", "/self/statm");
    uint64_t size = 0, resident = 0, shared = 0;
    if (!span_take_u64(&rest, &size) || !span_take_u64(&rest, &resident) ||
        !span_take_u64(&rest, &shared) || resident < shared)
        return 0;
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

void heap_guard_start(struct heap_guard *guard, uint64_t max_memory_kb, uint64_t max_cpu_secs)
{
    *guard = (struct heap_guard){
        .max_memory_kb = max_memory_kb,
        .max_cpu_secs = max_cpu_secs,
        .cpu_start = nsec_now(CLOCK_PROCESS_CPUTIME_ID),
    };
}

bool heap_guard_check(struct heap_guard *guard, nsec_t now)
{
    if (guard->hit || now < guard->due)
        return false;
    guard->due = now + PERIOD;
    nsec_t cpu = nsec_now(CLOCK_PROCESS_CPUTIME_ID) - guard->cpu_start;
    guard->hit = (guard->max_memory_kb && own_memory_kb() > guard->max_memory_kb) ||
                 (guard->max_cpu_secs && (uint64_t)(cpu / NSEC_PER_SEC) >= guard->max_cpu_secs);
    return guard->hit;
}
