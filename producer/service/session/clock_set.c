// SPDX-License-Identifier: Apache-2.0
//
// Readers translate a time by the last snapshot before it. Therefore one snapshot is valid until a
// clock is set or the machine sleeps: during sleep, MONOTONIC stands still; afterwards, REALTIME
// jumps. The coarse clocks lag by up to 10 ms on a kernel with HZ=100.
#include "producer/service/session/clock_set.h"

#include "common/elements.h"
#include "protos/fields.h"

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif

#define DRIFT_MIN (10 * NSEC_PER_MSEC)

static nsec_t kernel_now(void *userdata, clockid_t clock)
{
    (void)userdata;
    return nsec_now(clock);
}

const struct clock_reader clock_reader_kernel = {.now = kernel_now};

void clock_set_read(const struct clock_reader *reader, struct clock_set *ret)
{
    static const struct {
        uint32_t id;
        clockid_t clock;
    } clocks[] = {
        {PB_BUILTIN_CLOCK_BOOTTIME, CLOCK_BOOTTIME},
        {PB_BUILTIN_CLOCK_REALTIME_COARSE, CLOCK_REALTIME_COARSE},
        {PB_BUILTIN_CLOCK_MONOTONIC_COARSE, CLOCK_MONOTONIC_COARSE},
        {PB_BUILTIN_CLOCK_REALTIME, CLOCK_REALTIME},
        {PB_BUILTIN_CLOCK_MONOTONIC, CLOCK_MONOTONIC},
        {PB_BUILTIN_CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_RAW},
    };
    ret->n = 0;
    for (size_t i = 0; i < ELEMENTS(clocks); i++)
        ret->clocks[ret->n++] = (struct clock_reading){
            .id = clocks[i].id,
            .timestamp = (uint64_t)clock_read(reader, clocks[i].clock),
        };
#if defined(__x86_64__) || defined(__i386__)
    ret->clocks[ret->n++] = (struct clock_reading){
        .id = PB_BUILTIN_CLOCK_TSC,
        .timestamp = __rdtsc(),
    };
#endif
}

bool clock_set_drifted(const struct clock_set *before, const struct clock_set *after)
{
    if (before->n != after->n)
        return true;
    int64_t boot = (int64_t)(after->clocks[0].timestamp - before->clocks[0].timestamp);
    for (size_t i = 1; i < before->n; i++) {
        if (before->clocks[i].id == PB_BUILTIN_CLOCK_TSC)
            continue;
        int64_t moved = (int64_t)(after->clocks[i].timestamp - before->clocks[i].timestamp);
        int64_t drift = (int64_t)((uint64_t)moved - (uint64_t)boot);
        if (drift >= DRIFT_MIN || drift <= -DRIFT_MIN)
            return true;
    }
    return false;
}
