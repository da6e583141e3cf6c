// SPDX-License-Identifier: Apache-2.0
//
// Converts any bytes as a trace into a database in memory: the conversion succeeds, the database is
// sound, and rows of one table refer to rows that exist.
#pragma once

#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/elements.h"
#include "converter/import/import_trace.h"
#include "converter/input/input.h"
#include "converter/tables/join.h"

static inline void fuzz_expect_none(sqlite3 *handle, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) == SQLITE_ROW) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(handle));
        abort();
    }
    sqlite3_finalize(statement);
}

// Checks that every column with ids of rows has only ids of existing rows.
static inline void fuzz_references_check(sqlite3 *handle)
{
    for (enum table_id table = 0; table < N_TABLES; table++)
        for (size_t i = 0; i < table_defs[table].n_columns; i++) {
            const struct column_def *column = &table_defs[table].columns[i];
            struct column_meaning meaning = column_meaning_of(table, column);
            const struct table_def *of = &table_defs[meaning.of];
            char sql[512];
            if (meaning.sense != SENSE_ROW || column->generated || !of->columns[0].key)
                continue;
            snprintf(sql, sizeof(sql),
                     "SELECT 1 FROM \"%s\" WHERE \"%s\" NOT IN (SELECT \"%s\" FROM \"%s\") AND "
                     "\"%s\" IS NOT NULL",
                     table_defs[table].stored_name, column->name, of->columns[0].name,
                     of->stored_name, column->name);
            fuzz_expect_none(handle, sql);
        }
}

static inline void fuzz_database_check(struct database *db)
{
    fuzz_references_check(database_handle(db));
    static const char *const wrong[] = {
        "SELECT 1 FROM pragma_integrity_check WHERE integrity_check != 'ok'",
        "SELECT 1 FROM counter LEFT JOIN _track t ON t.id = track_id WHERE t.id IS NULL",
        "SELECT 1 FROM slice LEFT JOIN _track t ON t.id = track_id WHERE t.id IS NULL",
        "SELECT 1 FROM slice s LEFT JOIN slice p ON p.id = s.parent_id "
        "WHERE s.parent_id IS NOT NULL AND p.depth IS NOT s.depth - 1",
        "SELECT 1 FROM ftrace_event LEFT JOIN thread USING (utid) WHERE tid IS NULL",
        "SELECT 1 FROM thread_state LEFT JOIN thread USING (utid) WHERE tid IS NULL",
        "SELECT 1 FROM thread t LEFT JOIN process USING (upid) WHERE upid IS NOT NULL AND pid IS "
        "NULL",
        "SELECT 1 FROM (SELECT ts, lag(ts) OVER (ORDER BY id) AS before FROM ftrace_event) "
        "WHERE ts < before",
        "SELECT 1 FROM _arg_set s LEFT JOIN _arg_kind k ON k.id = s.kind_id WHERE k.id IS NULL",
        "SELECT 1 FROM sched_slice WHERE dur < -1",
        "SELECT 1 FROM thread_state WHERE dur < -1",
        "SELECT 1 FROM slice WHERE dur < -1",
        "SELECT 1 FROM stack_profile_callsite WHERE parent_id >= id",
        "SELECT 1 FROM slice WHERE parent_id >= id",
        "SELECT 1 FROM args WHERE key IS NULL",
        "SELECT 1 FROM counter c LEFT JOIN _arg_set s ON s.id = c.arg_set_id WHERE "
        "c.arg_set_id IS NOT NULL AND s.id IS NULL",
    };
    for (size_t i = 0; i < ELEMENTS(wrong); i++)
        fuzz_expect_none(database_handle(db), wrong[i]);
}

// Reads the trace into a new database and finishes it by `end`. The caller owns both results.
static inline struct database *fuzz_import(const uint8_t *data, size_t size,
                                           int (*end)(struct database *db, struct err *err),
                                           struct input **ret_input)
{
    struct err err = {0};
    struct database *db = NULL;
    struct trace_result result;
    int r = input_from_memory(data, size, &err, ret_input);
    if (r == 0)
        r = database_create(NULL, &err, &db);
    if (r == 0)
        r = import_trace(db, *ret_input, NULL, NULL, NULL, &err, &result);
    if (r == 0)
        r = end(db, &err);
    if (r < 0) {
        fprintf(stderr, "conversion failed: %s\n", err.text);
        abort();
    }
    return db;
}

static inline int fuzz_finish(struct database *db, struct err *err)
{
    return database_finish(db, NULL, NULL, err);
}

// Returns a database that the caller owns.
static inline struct database *fuzz_convert(const uint8_t *data, size_t size)
{
    struct input *input = NULL;
    struct database *db = fuzz_import(data, size, fuzz_finish, &input);
    fuzz_database_check(db);
    input_free(input);
    return db;
}
