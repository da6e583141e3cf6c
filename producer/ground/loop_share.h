// SPDX-License-Identifier: Apache-2.0
//
// The time that the recordings of one user may take in the loop. A user can have many data sources,
// each with a short period. Without a share, they would keep the loop from the sources and requests
// of others.
#pragma once

#include <stdbool.h>

#include "common/nsec.h"
#include "producer/ground/work_time.h"

// A share is a part of one processor. Unused time counts for later, but not for more than a period.
#define LOOP_SHARE_PART   4
#define LOOP_SHARE_PERIOD (NSEC_PER_SEC / 2)

// All zero: nothing was spent.
struct loop_share {
    nsec_t free_at; // there is time again (CLOCK_BOOTTIME)
    nsec_t turn;    // the last time until which a timer had to wait
};

// Returns whether there is time left at the time `now`. A NULL share has no limit.
static inline bool loop_share_is_left(const struct loop_share *share, nsec_t now)
{
    return !share || share->free_at <= now;
}

// Counts time that was spent until `now`, also more than was left. `share` may be NULL.
static inline void loop_share_spend(struct loop_share *share, nsec_t time, nsec_t now)
{
    if (!share)
        return;
    nsec_t unused = now - LOOP_SHARE_PERIOD;
    nsec_t from = share->free_at > unused ? share->free_at : unused;
    share->free_at = from + LOOP_SHARE_PART * time;
}

// Begins a piece of work that keeps the loop from others. loop_share_spend_since() counts its time,
// also where the work waits, but not where it waits for a processor. A suspend does not count.
static inline nsec_t loop_share_begin(const struct loop_share *share)
{
    return share ? work_time_now() : 0;
}

static inline void loop_share_spend_since(struct loop_share *share, nsec_t began)
{
    if (share)
        loop_share_spend(share, work_time_now() - began, nsec_now(CLOCK_BOOTTIME));
}

// The time that the sessions of one user take in the loop. Starts and ends have a share of their
// own: a slow start must not cost the readings that follow.
struct source_shares {
    struct loop_share readings; // and flushes
    struct loop_share sessions; // starts and ends
};
