// SPDX-License-Identifier: Apache-2.0
//
// The number of periods that a test may expect, under any load of the machine.
#pragma once

#include "producer/ground/loop.h"
#include "tests/unit/unit.h"

#define HANG_AFTER (60 * NSEC_PER_SEC) // no test waits so long, unless something hangs

// The grid FIRST, FIRST + period, ... up to LAST. The test knows limits of FIRST and LAST only.
struct grid_span {
    nsec_t first_min, first_max; // limits of the source's start
    nsec_t last_min, last_max;   // work due before last_min is done, work due after last_max is not
};

static inline uint64_t grid_points_min(const struct grid_span *span, nsec_t period)
{
    nsec_t elapsed = span->last_min - span->first_max;
    return elapsed < 0 ? 0 : (uint64_t)(elapsed / period) + 1;
}

static inline uint64_t grid_points_max(const struct grid_span *span, nsec_t period)
{
    return (uint64_t)((span->last_max - span->first_min) / period) + 1;
}

// Does all work of the loop that is due now.
static inline void run_what_is_due(struct loop *loop, struct grid_span *span)
{
    span->last_min = nsec_now(CLOCK_BOOTTIME);
    assert_true(loop_run_once(loop, 0) >= 0);
    span->last_max = nsec_now(CLOCK_BOOTTIME);
}
