// SPDX-License-Identifier: Apache-2.0
//
// A track's key is its type and dimensions, concatenated. The key's index in a string set is the
// track's id. Rows are written at the end, because names may change until the end.
#include "converter/import/tracks.h"

#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"

void track_key_make(const struct tracks *tracks, struct strbuf *key, const struct track_spec *spec)
{
    if (tracks->machine)
        strbuf_add(key, &tracks->machine, sizeof(tracks->machine));
    strbuf_add(key, spec->type, strlen(spec->type) + 1);
    strbuf_add_char(key, spec->counter ? 'c' : spec->state ? 't' : 's');
    for (size_t i = 0; i < TRACK_DIMENSIONS_MAX && spec->dimensions[i].name; i++) {
        const struct track_dimension *dimension = &spec->dimensions[i];
        strbuf_add(key, dimension->name, strlen(dimension->name) + 1);
        strbuf_add(key, &dimension->size, sizeof(dimension->size));
        if (dimension->text)
            strbuf_add(key, dimension->text, dimension->size);
        else
            strbuf_add(key, &dimension->number, sizeof(dimension->number));
    }
}

static uint32_t string_add(struct tracks *tracks, const char *text, size_t size)
{
    return text ? strset_add(tracks->strings, text, size) : STRSET_NONE;
}

static struct track track_make(struct tracks *tracks, const struct track_spec *spec)
{
    struct track track = {
        .type = spec->type,
        .unit = spec->unit,
        .name = string_add(tracks, spec->name.text,
                           str_cut(spec->name.text, spec->name.size, TRACK_TEXT_MAX)),
        .counter = spec->counter,
        .state = spec->state,
        .parent_id = -1,
        .source_set = ARG_SET_NONE,
        .group = -1,
        .machine = tracks->machine,
        .upid = -1,
        .utid = -1,
        .cpu = -1,
    };
    struct arg set[TRACK_DIMENSIONS_MAX];
    size_t n = 0;
    for (; n < TRACK_DIMENSIONS_MAX && spec->dimensions[n].name; n++) {
        const struct track_dimension *dimension = &spec->dimensions[n];
        if (dimension->text) {
            uint32_t id = string_add(tracks, dimension->text, dimension->size);
            set[n] = arg_text(dimension->name, strset_text(tracks->strings, id), dimension->size);
            continue;
        }
        set[n] = arg_int(dimension->name, dimension->number);
        if (str_eq(dimension->name, "upid"))
            track.upid = dimension->number;
        else if (str_eq(dimension->name, "utid"))
            track.utid = dimension->number;
        else if (str_eq(dimension->name, "cpu"))
            track.cpu = dimension->number;
    }
    track.dimension_set = args_add(tracks->args, set, n);
    return track;
}

uint32_t tracks_get(struct tracks *tracks, const struct track_spec *spec)
{
    // The buffer is reused: counters look up their track with every sample.
    struct strbuf *key = &tracks->key;
    strbuf_clear(key);
    track_key_make(tracks, key, spec);
    uint32_t id = key->failed ? STRSET_NONE : strset_add(&tracks->keys, key->text, key->size);
    if (id != STRSET_NONE && id < tracks->items.n)
        return id;
    if (id == STRSET_NONE || track_vec_push(&tracks->items, track_make(tracks, spec)) < 0) {
        failure_note(tracks->failure, -ENOMEM);
        return 0;
    }
    return id;
}

void tracks_name(struct tracks *tracks, uint32_t track, const char *name, size_t size)
{
    if (track < tracks->items.n)
        tracks->items.items[track].name =
            string_add(tracks, name, str_cut(name, size, TRACK_TEXT_MAX));
}

void track_describe(struct tracks *tracks, uint32_t track, const struct arg *args, size_t n)
{
    if (track < tracks->items.n && tracks->items.items[track].source_set == ARG_SET_NONE)
        tracks->items.items[track].source_set = args_add(tracks->args, args, n);
}

void tracks_write(const struct tracks *tracks, struct database *db)
{
    for (size_t i = 0; i < tracks->items.n; i++) {
        const struct track *track = &tracks->items.items[i];
        if (track->replaced)
            continue;
        struct cell *row = database_row_with_id(db, TABLE__track, (int64_t)i);
        cell_text(row, COL__track_name, strset_text(tracks->strings, track->name));
        cell_text(row, COL__track_type, track->type);
        cell_known(row, COL__track_dimension_arg_set_id, track->dimension_set);
        cell_known(row, COL__track_parent_id, track->parent_id);
        cell_known(row, COL__track_source_arg_set_id, track->source_set);
        cell_int(row, COL__track_machine_id, track->machine);
        cell_known(row, COL__track_track_group_id, track->group);
        if (!track->state)
            cell_int(row, COL__track_is_counter, track->counter);
        cell_text(row, COL__track_unit, track->unit);
        cell_text(row, COL__track_description, track->description);
        cell_known(row, COL__track_upid, track->upid);
        cell_known(row, COL__track_utid, track->utid);
        cell_known(row, COL__track_cpu, track->cpu);
    }
}

void tracks_done(struct tracks *tracks)
{
    strset_done(&tracks->keys);
    track_vec_done(&tracks->items);
    strbuf_done(&tracks->key);
}
