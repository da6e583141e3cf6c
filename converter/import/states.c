// SPDX-License-Identifier: Apache-2.0
#include "converter/import/states.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "converter/tables/database.h"

#define DUR_PENDING (-1)
#define ARGS_MAX    4096 // number kept for a state
#define MERGE_STEP  64

struct current_state {
    int64_t id, ts;
    struct slice_name category, value; // no value: the track has no state
    struct merged_args args;
};

static struct current_state *current_get(struct states *states, uint32_t track)
{
    while (states->tracks.n <= track)
        if (current_state_vec_push(&states->tracks, NULL) < 0)
            return NULL;
    struct current_state **current = &states->tracks.items[track];
    if (!*current)
        *current = memory_calloc(1, sizeof(**current));
    return *current;
}

static void current_write(struct states *states, uint32_t track, struct current_state *current,
                          int64_t dur)
{
    struct cell *row = database_row_with_id(states->db, TABLE_state, current->id);
    cell_int(row, COL_state_ts, current->ts);
    cell_int(row, COL_state_dur, dur);
    cell_int(row, COL_state_track_id, track);
    cell_name(row, COL_state_category, current->category);
    cell_name(row, COL_state_value, current->value);
    cell_arg_set(row, COL_state_arg_set_id,
                 args_add(states->args, current->args.args.items, current->args.args.n));
    merged_args_done(&current->args);
    *current = (struct current_state){0};
}

static bool name_eq(struct slice_name a, struct slice_name b)
{
    return a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
}

void state_set(struct states *states, const struct state_spec *spec)
{
    struct current_state *current = current_get(states, spec->track);
    if (!current) {
        failure_note(states->failure, -ENOMEM);
        return;
    }
    bounds_add(&states->bounds, spec->ts);
    bool goes_on = current->value.text && spec->value.text && name_eq(current->value, spec->value);
    if (current->value.text && !goes_on)
        current_write(states, spec->track, current,
                      (int64_t)((uint64_t)spec->ts - (uint64_t)current->ts));
    if (!spec->value.text)
        return;
    if (!goes_on) {
        current->id = database_reserve_id(states->db, TABLE_state);
        current->ts = spec->ts;
        current->category = spec->category;
        current->value = spec->value;
    }
    merged_args_add(&current->args, spec->args, spec->n_args, states->failure);
}

const struct arg_vec *state_args(const struct states *states, uint32_t track,
                                 struct slice_name value)
{
    const struct current_state *current =
        track < states->tracks.n ? states->tracks.items[track] : NULL;
    bool is_it = current && current->value.text && name_eq(current->value, value);
    return is_it ? &current->args.args : NULL;
}

void states_finish(struct states *states)
{
    for (size_t i = 0; i < states->tracks.n; i++) {
        struct current_state *current = states->tracks.items[i];
        if (current && current->value.text)
            current_write(states, (uint32_t)i, current, DUR_PENDING);
    }
}

void states_done(struct states *states)
{
    vec_foreach(&states->tracks, current) {
        if (*current)
            merged_args_done(&(*current)->args);
        free(*current);
    }
    current_state_vec_done(&states->tracks);
}
