// SPDX-License-Identifier: Apache-2.0
//
// States of tracks: a track has one state at a time, which lasts until the next state. A row is
// written when its state ends, so memory holds only the current states.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/import/args.h"

struct current_state;
VEC_DEFINE(current_state_vec, struct current_state *);

struct states {
    struct database *db;             // borrowed
    struct args *args;               // borrowed
    struct current_state_vec tracks; // owned, by track
    struct bounds bounds;            // of all states
    struct failure *failure;         // borrowed
};

struct state_spec {
    int64_t ts;
    uint32_t track;                    // of states
    struct slice_name category, value; // no value: the track has no state from now on
    const struct arg *args;            // copied
    size_t n_args;
};

// Sets the track's state. If the track has this state already, the state goes on. Adds the args to
// the state.
void state_set(struct states *states, const struct state_spec *spec);

// Returns the args so far of the track's state, if the state is `value`, else NULL. Valid until the
// next call.
const struct arg_vec *state_args(const struct states *states, uint32_t track,
                                 struct slice_name value);

// Writes the states that have not ended.
void states_finish(struct states *states);
void states_done(struct states *states);
