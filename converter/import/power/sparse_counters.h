// SPDX-License-Identifier: Apache-2.0
//
// Counters of many things that are polled in rounds and rarely change. A row is written when a
// value changes, and one for the last time that it still had the value before.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/import/import.h"

struct sparse_value {
    double value;
    uint64_t round; // that it changed in
};
VEC_DEFINE(sparse_value_vec, struct sparse_value);

// All zero is empty.
struct sparse_counters {
    struct map64 by_track; // -> index in values
    struct sparse_value_vec values;
    uint64_t round;
    int64_t ts, before_ts; // of this round and the one before
};

// Everything that is not pushed until the next round has kept its value.
void sparse_counters_round(struct sparse_counters *counters, int64_t ts);

void sparse_counters_push(struct import *im, struct sparse_counters *counters, uint32_t track,
                          double value);

void sparse_counters_done(struct sparse_counters *counters);
