// SPDX-License-Identifier: Apache-2.0
//
// One table holds the events of all kinds, in order of time, and all other sets of args. Views show
// each kind with the kind's columns, and fields as args. A table for each kind would be no smaller,
// and the args view would be a union of all tables, which SQLite builds in full before each join.
#include "converter/import/ftrace/ftrace_rows.h"

#include <errno.h>

#include "common/str.h"

uint32_t ftrace_kind_add(struct ftrace_rows *rows, const char *name, size_t name_size)
{
    struct row_kind kind = {0};
    if (!database_selection(rows->db)->no_events)
        kind.id = arg_kind_add(rows->db, name, name_size);
    if (row_kind_vec_push(&rows->kinds, kind) < 0) {
        failure_note(rows->failure, -ENOMEM);
        return 0;
    }
    return (uint32_t)(rows->kinds.n - 1);
}

size_t ftrace_slot_of(struct ftrace_rows *rows, uint32_t kind, const char *key, uint8_t type)
{
    if (rows->failure->code < 0)
        return ARG_SLOTS_MAX;
    struct key_vec *keys = &rows->kinds.items[kind].keys;
    for (size_t i = 0; i < keys->n; i++)
        if (keys->items[i] == key || str_eq(keys->items[i], key))
            return i;
    if (keys->n == ARG_SLOTS_MAX)
        return ARG_SLOTS_MAX;
    if (key_vec_push(keys, key) < 0) {
        failure_note(rows->failure, -ENOMEM);
        return ARG_SLOTS_MAX;
    }
    if (!database_selection(rows->db)->no_event_fields)
        arg_field_add(rows->db, rows->kinds.items[kind].id, keys->n - 1, key, NULL, type);
    return keys->n - 1;
}

struct cell *ftrace_row_add(struct ftrace_rows *rows, uint32_t kind, int64_t ts, uint32_t cpu,
                            int64_t utid)
{
    const struct selection *selection = database_selection(rows->db);
    if (selection->no_events)
        return database_nowhere(rows->db);
    size_t n_slots = rows->failure->code < 0 ? ARG_SLOTS_MAX : rows->kinds.items[kind].keys.n;
    if (selection->no_event_fields)
        n_slots = 0;
    int64_t id = database_reserve_id(rows->db, TABLE__arg_set);
    struct cell *row =
        database_row_sized(rows->db, TABLE__arg_set, id, COL__arg_set_value_0 + n_slots);
    cell_int(row, COL__arg_set_ts, ts);
    if (rows->failure->code == 0)
        cell_int(row, COL__arg_set_kind_id, rows->kinds.items[kind].id);
    cell_int(row, COL__arg_set_utid, utid);
    cell_int(row, COL__arg_set_ucpu, cpu);
    return row;
}

void ftrace_row_set(const struct ftrace_rows *rows, struct cell *row, size_t slot,
                    const struct arg *arg)
{
    if (slot < ARG_SLOTS_MAX && !database_selection(rows->db)->no_event_fields)
        arg_cell_set(&row[COL__arg_set_value_0 + slot], arg);
}

void ftrace_rows_done(struct ftrace_rows *rows)
{
    vec_foreach(&rows->kinds, kind)
        key_vec_done(&kind->keys);
    row_kind_vec_done(&rows->kinds);
}
