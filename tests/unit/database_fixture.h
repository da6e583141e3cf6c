// SPDX-License-Identifier: Apache-2.0
//
// Databases without a path, and queries of them.
#pragma once

#include <sqlite3.h>

#include "converter/tables/database.h"
#include "tests/unit/unit.h"

static inline struct database *create(void)
{
    struct err err = {0};
    struct database *db;
    assert_int_equal(database_create(NULL, &err, &db), 0);
    return db;
}

// Returns the handle, which lives as long as the database.
static inline sqlite3 *finish(struct database *db)
{
    struct err err = {0};
    assert_int_equal(database_finish(db, NULL, NULL, &err), 0);
    return database_handle(db);
}

// Returns the first number of the first row.
static inline int64_t query_int(sqlite3 *handle, const char *sql)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

// Asserts that the first text of the first row is `expected`. NULL counts as the empty text.
static inline void query_is(sqlite3 *handle, const char *sql, const char *expected)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    assert_string_equal(text ? text : "", expected);
    sqlite3_finalize(statement);
}

static inline void expect_integrity(sqlite3 *handle)
{
    assert_int_equal(query_int(handle, "SELECT group_concat(integrity_check) = 'ok' "
                                       "FROM pragma_integrity_check"),
                     1);
}

static inline struct cell *counter_add(struct database *db, int64_t ts, int64_t track)
{
    struct cell *row = database_row(db, TABLE_counter, NULL);
    cell_int(row, COL_counter_ts, ts);
    cell_int(row, COL_counter_track_id, track);
    return row;
}
