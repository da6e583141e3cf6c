// SPDX-License-Identifier: Apache-2.0
//
// Each trace is converted separately, and importers count ids from 0. A number's meaning decides
// the shift. The shift is added when the row is written, or in the SQL that copies the row.
// Importers need not know other traces, and the conversion of a single trace has no extra cost.
#include "converter/tables/join.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/tables/arg_views.h"
#include "converter/tables/rows.h"

#define UCPUS_PER_MACHINE 4096

struct offsets {
    int64_t rows[N_TABLES];
    int64_t machines, snapshots, symbol_sets, counter_sets, track_groups;
};

// Sets *ret to the next free numbers of the database. Returns 0 or a negative errno.
static int offsets_find(struct sqlite3 *handle, struct offsets *ret)
{
    int r = 0;
    struct offsets found = {0};
    for (enum table_id table = 0; table < N_TABLES; table++) {
        found.rows[table] = table_next_id(handle, table);
        if (found.rows[table] < 0)
            return (int)found.rows[table];
    }
    found.machines = sql_number_or_failure(
        handle,
        "SELECT max(m) + 1 FROM (SELECT max(id) m FROM main.machine UNION ALL "
        "SELECT max(machine_id) FROM main.process UNION ALL "
        "SELECT max(machine_id) FROM main.cpu UNION ALL "
        "SELECT max(machine_id) FROM main.trace_machine)",
        0, &r);
    found.snapshots = sql_number_or_failure(
        handle, "SELECT max(snapshot_id) + 1 FROM main.clock_snapshot", 0, &r);
    found.symbol_sets = sql_number_or_failure(
        handle, "SELECT max(symbol_set_id) + 1 FROM main.stack_profile_symbol", 0, &r);
    found.counter_sets = sql_number_or_failure(
        handle, "SELECT max(counter_set_id) + 1 FROM main._profiler_counter_set", 0, &r);
    found.track_groups =
        sql_number_or_failure(handle, "SELECT max(track_group_id) + 1 FROM main._track", 0, &r);
    if (r == 0)
        *ret = found;
    return r;
}

// Returns the shift of a column's numbers; 0 for times and traces.
static int64_t column_shift(enum table_id table, const struct column_def *column,
                            const struct offsets *offsets)
{
    struct column_meaning meaning = column_meaning_of(table, column);
    switch (meaning.sense) {
    case SENSE_ID:
        return offsets->rows[table];
    case SENSE_ROW:
        return offsets->rows[meaning.of];
    case SENSE_SPACE:
        return meaning.of == TABLE_clock_snapshot          ? offsets->snapshots
               : meaning.of == TABLE_stack_profile_symbol  ? offsets->symbol_sets
               : meaning.of == TABLE__profiler_counter_set ? offsets->counter_sets
                                                           : offsets->track_groups;
    case SENSE_MACHINE:
        return offsets->machines;
    case SENSE_UCPU:
        return offsets->machines * UCPUS_PER_MACHINE;
    case SENSE_PLAIN:
    case SENSE_TIME:
    case SENSE_TRACE:
        break;
    }
    return 0;
}

int join_shifts_find(struct sqlite3 *handle, struct id_shifts *ret)
{
    struct offsets offsets;
    int r = offsets_find(handle, &offsets);
    if (r < 0)
        return r;
    *ret = (struct id_shifts){0};
    for (enum table_id table = 0; table < N_TABLES; table++)
        for (size_t i = 0, n = 0; i < table_defs[table].n_columns; i++)
            if (!table_defs[table].columns[i].generated)
                ret->add[table][n++] = column_shift(table, &table_defs[table].columns[i], &offsets);
    return 0;
}

// Adds the SQL expression of a stored column of the part. Returns true if the column changes.
static bool column_add(struct strbuf *sql, enum table_id table, const struct column_def *column,
                       const struct offsets *offsets, const struct join *join)
{
    enum column_sense sense = column_meaning_of(table, column).sense;
    if (sense == SENSE_TRACE) {
        strbuf_addf(sql, "%" PRId64, join->trace_id);
        return true;
    }
    int64_t add = sense == SENSE_TIME ? join->ts_shift
                  : join->shifted     ? 0
                                      : column_shift(table, column, offsets);
    strbuf_addf(sql, "\"%s\"", column->name);
    if (add)
        strbuf_addf(sql, " + %" PRId64, add);
    return add;
}

// Copies a table. If no column changes, SQLite copies records without decoding them.
static int table_join(struct sqlite3 *handle, enum table_id table, const struct offsets *offsets,
                      const struct join *join, struct err *err)
{
    const struct table_def *def = &table_defs[table];
    CLEANUP(strbuf_done) struct strbuf sql = {0}, names = {0}, values = {0};
    bool changed = false;
    for (size_t i = 0, n = 0; i < def->n_columns; i++) {
        if (def->columns[i].generated)
            continue;
        strbuf_addf(&names, "%s\"%s\"", n ? "," : "", def->columns[i].name);
        strbuf_add_str(&values, n++ ? "," : "");
        changed |= column_add(&values, table, &def->columns[i], offsets, join);
    }
    if (names.failed || values.failed)
        return err_errno(err, -ENOMEM, "%s", def->name);
    if (changed)
        strbuf_addf(&sql, "INSERT INTO main.\"%s\"(%s) SELECT %s FROM part.\"%s\"",
                    def->stored_name, names.text, values.text, def->stored_name);
    else
        strbuf_addf(&sql, "INSERT INTO main.\"%s\" SELECT * FROM part.\"%s\"", def->stored_name,
                    def->stored_name);
    if (sql.failed)
        return err_errno(err, -ENOMEM, "%s", def->name);
    return sql_run(handle, sql.text, def->name, err);
}

// Shifts values of args that are ids, for example dimensions of tracks.
static int args_mend(struct sqlite3 *handle, const struct offsets *offsets, struct err *err)
{
    static const char keys[] =
        "f.key IN ('upid', 'utid', 'ucpu', 'callsite_id', 'end_callsite_id', "
        "'end_utid', 'legacy_event.passthrough_utid')";
    int r = 0;
    for (int slot = 0; slot < ARG_SLOTS_MAX && r == 0; slot++) {
        char sql[1024];
        snprintf(sql, sizeof(sql),
                 "UPDATE main._arg_set SET value_%d = value_%d + (SELECT CASE f.key "
                 "WHEN 'upid' THEN %" PRId64 " WHEN 'ucpu' THEN %" PRId64
                 " WHEN 'callsite_id' THEN %" PRId64 " WHEN 'end_callsite_id' THEN %" PRId64
                 " ELSE %" PRId64
                 " END FROM main._arg_field f WHERE f.kind_id = _arg_set.kind_id AND f.slot = %d) "
                 "WHERE id >= %" PRId64 " AND kind_id IN (SELECT f.kind_id FROM main._arg_field f "
                 "WHERE f.slot = %d AND f.kind_id >= %" PRId64 " AND %s)",
                 slot, slot, offsets->rows[TABLE_process], offsets->machines * UCPUS_PER_MACHINE,
                 offsets->rows[TABLE_stack_profile_callsite],
                 offsets->rows[TABLE_stack_profile_callsite], offsets->rows[TABLE_thread], slot,
                 offsets->rows[TABLE__arg_set], slot, offsets->rows[TABLE__arg_kind], keys);
        r = sql_run(handle, sql, "args", err);
    }
    return r;
}

int database_join(struct sqlite3 *handle, const char *part, const struct join *join,
                  struct err *err)
{
    char *attach = sqlite3_mprintf("ATTACH %Q AS part", part);
    int r = attach ? sql_run(handle, attach, part, err) : err_errno(err, -ENOMEM, "%s", part);
    sqlite3_free(attach);
    if (r < 0)
        return r;
    // The machines of the last trace besides its own machine.
    static const char machines_sql[] =
        "INSERT INTO main.trace_machine SELECT DISTINCT (SELECT max(id) FROM main.trace), "
        "machine_id FROM main.process WHERE machine_id IS NOT NULL AND machine_id NOT IN "
        "(SELECT machine_id FROM main.trace_machine) AND EXISTS (SELECT 1 FROM main.trace)";
    r = sql_run(handle, machines_sql, part, err);
    struct offsets offsets = {0};
    int found = offsets_find(handle, &offsets);
    if (r == 0 && found < 0)
        r = err_errno(err, found, "%s", part);
    if (r == 0)
        r = sql_run(handle, "BEGIN", part, err);
    if (r == 0) // rows of the only trace get its trace_id
        r = sql_run(handle,
                    "UPDATE main.metadata SET trace_id = 0 WHERE trace_id IS NULL; "
                    "UPDATE main.stats SET trace_id = 0 WHERE trace_id IS NULL",
                    part, err);
    for (enum table_id table = 0; table < N_TABLES && r == 0; table++)
        if (table != TABLE_mmsql_schema) // the base has its rows already
            r = table_join(handle, table, &offsets, join, err);
    if (r == 0)
        r = args_mend(handle, &offsets, err);
    if (r == 0 && arg_views_make(handle) != SQLITE_OK)
        r = err_set(err, -EIO, "%s: %s", part, sqlite3_errmsg(handle));
    if (r == 0)
        r = sql_run(handle, machines_sql, part, err);
    if (r == 0)
        r = sql_run(
            handle,
            "CREATE TEMP TABLE bounds AS SELECT min(start_ts) AS a, max(end_ts) AS b "
            "FROM main.trace WHERE end_ts > 0;"
            "DELETE FROM main.trace_bounds;"
            "INSERT INTO main.trace_bounds SELECT coalesce(a, 0), coalesce(b, 0) FROM bounds;"
            "DROP TABLE bounds; COMMIT",
            part, err);
    if (r < 0)
        sqlite3_exec(handle, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_exec(handle, "DETACH part", NULL, NULL, NULL);
    return r;
}

int database_same_schema(struct sqlite3 *handle, const char *path, struct err *err)
{
    for (size_t i = 0; i < N_TABLES; i++) {
        const struct table_def *def = &table_defs[i];
        CLEANUP(strbuf_done) struct strbuf sql = {0};
        strbuf_add_str(&sql, "SELECT ");
        for (size_t k = 0, n = 0; k < def->n_columns; k++)
            if (!def->columns[k].generated)
                strbuf_addf(&sql, "%s\"%s\".\"%s\"", n++ ? "," : "", def->stored_name,
                            def->columns[k].name);
        strbuf_addf(&sql, " FROM main.\"%s\"", def->stored_name);
        sqlite3_stmt *statement = NULL;
        int code =
            sql.failed ? SQLITE_NOMEM : sqlite3_prepare_v2(handle, sql.text, -1, &statement, NULL);
        sqlite3_finalize(statement);
        if (code == SQLITE_OK)
            continue;
        if (code == SQLITE_NOMEM)
            return err_errno(err, -ENOMEM, "%s", path);
        err_set(err, -EINVAL,
                "%s: another version of mmsql made this database, nothing can be added", path);
        return err_hint(err, -EINVAL, "convert its traces anew");
    }
    return 0;
}
