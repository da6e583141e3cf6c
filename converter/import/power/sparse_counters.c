// SPDX-License-Identifier: Apache-2.0
//
// Only values in packets cost time, because a trace may name a million counters once and poll the
// counters very often.
#include "converter/import/power/sparse_counters.h"

void sparse_counters_round(struct sparse_counters *counters, int64_t ts)
{
    counters->round++;
    counters->before_ts = counters->ts;
    counters->ts = ts;
}

struct sequence_sums *sparse_counters_sequence(struct import *im, struct sparse_counters *counters,
                                               const struct packet *packet)
{
    bool is_new;
    const uint64_t *index = import_map_get(im, &counters->by_sequence, packet->sequence_id,
                                           counters->sequences.n, &is_new);
    if (index && is_new)
        import_fail(im, sequence_sums_vec_push(&counters->sequences, (struct sequence_sums){0}));
    if (import_failed(im))
        return NULL;
    struct sequence_sums *sums = &counters->sequences.items[*index];
    if (sums->epoch != packet->state->epoch) {
        map64_done(&sums->ids);
        map64_done(&sums->sums);
        sums->n_columns = 0;
    }
    sums->epoch = packet->state->epoch;
    return sums;
}

uint64_t sparse_sum_add(struct import *im, struct map64 *sums, uint64_t key, uint64_t value)
{
    bool is_new;
    uint64_t *sum = import_map_get(im, sums, key, 0, &is_new);
    return sum ? *sum += value : 0;
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
    vec_foreach(&counters->sequences, sums) {
        map64_done(&sums->ids);
        map64_done(&sums->sums);
    }
    sequence_sums_vec_done(&counters->sequences);
    map64_done(&counters->by_sequence);
    map64_done(&counters->by_track);
    sparse_value_vec_done(&counters->values);
}
