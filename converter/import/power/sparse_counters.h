// SPDX-License-Identifier: Apache-2.0
//
// Many counters that are polled in rounds and rarely change. A changed value gets a row, and the
// last round with the previous value gets a row, too. Packets have increments since the previous
// packet of the same sequence.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/import/import.h"

struct sparse_value {
    double value;
    uint64_t round; // of the last change
};
VEC_DEFINE(sparse_value_vec, struct sparse_value);

// The sums of one sequence, until the sequence starts over.
struct sequence_sums {
    uint32_t epoch;
    uint64_t n_columns;
    struct map64 ids, sums; // the importer defines the keys
};
VEC_DEFINE(sequence_sums_vec, struct sequence_sums);

// All zero is empty.
struct sparse_counters {
    struct map64 by_sequence; // -> index in sequences
    struct sequence_sums_vec sequences;
    struct map64 by_track; // -> index in values
    struct sparse_value_vec values;
    uint64_t round;
    int64_t ts, before_ts; // ns; of this round and the previous round
};

// Begins a round. Counters without a push in the round keep their values.
void sparse_counters_round(struct sparse_counters *counters, int64_t ts);

// Returns the sums of the packet's sequence. NULL: the conversion must end.
struct sequence_sums *sparse_counters_sequence(struct import *im, struct sparse_counters *counters,
                                               const struct packet *packet);

// Adds to the sum of `key`, and returns the sum; 0: the conversion must end.
uint64_t sparse_sum_add(struct import *im, struct map64 *sums, uint64_t key, uint64_t value);

void sparse_counters_push(struct import *im, struct sparse_counters *counters, uint32_t track,
                          double value);

void sparse_counters_done(struct sparse_counters *counters);
