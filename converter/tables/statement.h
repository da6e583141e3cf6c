// SPDX-License-Identifier: Apache-2.0
//
// Statements and queries on an open database.
#pragma once

#include <sqlite3.h>
#include <stdint.h>

#include "common/err.h"
#include "converter/tables/schema.h"

// For CLEANUP().
static inline void statement_finalizep(sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
}

// Returns the text of a column, or "" for NULL. The text is valid until the statement's next step.
static inline const char *column_text(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text ? text : "";
}

// Runs statements without results. `what` begins the error's text. Returns 0 or a negative errno
// with text.
int sql_run(struct sqlite3 *handle, const char *sql, const char *what, struct err *err);

// Returns the number that `sql` returns. Returns `otherwise` if the result is NULL or has no row,
// or if `sql` is not valid (an unknown table, for example). If *ret_failure is 0, another failure
// (memory, reading the file) sets *ret_failure to a negative errno.
int64_t sql_number_or_failure(struct sqlite3 *handle, const char *sql, int64_t otherwise,
                              int *ret_failure);

// As sql_number_or_failure(), but ignores failures.
int64_t sql_number(struct sqlite3 *handle, const char *sql, int64_t otherwise);

// Returns the id after the largest id of the table, 0 for an empty table, or a negative errno.
int64_t table_next_id(struct sqlite3 *handle, enum table_id table);
