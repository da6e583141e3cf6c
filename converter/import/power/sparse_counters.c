// SPDX-License-Identifier: Apache-2.0
//
// Only what changes is looked at: a trace may name a million things once and poll them forever.
#include "converter/import/power/sparse_counters.h"

#include <errno.h>

void sparse_counters_round(struct sparse_counters *counters, int64_t ts)
{
    counters->round++;
    counters->before_ts = counters->ts;
    counters->ts = ts;
}

void sparse_counters_push(struct import *im, struct sparse_counters *counters, uint32_t track,
                          double value)
{
    bool is_new;
    const uint64_t *index =
        import_map_get(im, &counters->by_track, track, counters->values.n, &is_new);
    if (!index)
        return;
    struct sparse_value now = {.value = value, .round = counters->round};
    if (is_new) {
        counter_push(im, counters->ts, track, value, ARG_SET_NONE);
        import_fail(im, sparse_value_vec_push(&counters->values, now));
        return;
    }
    struct sparse_value *last = &counters->values.items[*index];
    if (last->value == value)
        return;
    if (last->round + 1 < counters->round)
        counter_push(im, counters->before_ts, track, last->value, ARG_SET_NONE);
    counter_push(im, counters->ts, track, value, ARG_SET_NONE);
    *last = now;
}

void sparse_counters_done(struct sparse_counters *counters)
{
    map64_done(&counters->by_track);
    sparse_value_vec_done(&counters->values);
}
