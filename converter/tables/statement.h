// SPDX-License-Identifier: Apache-2.0
//
// Statements and questions to a database that is open.
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

// The text of a column; "" for NULL. Valid until the statement's next step.
static inline const char *column_text(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text ? text : "";
}

// Runs statements without results; `what` begins the error's text.
int sql_run(struct sqlite3 *handle, const char *sql, const char *what, struct err *err);

// The number that `sql` returns, or `otherwise` if that is NULL, there is no row, or `sql` is not
// understood. *ret_failure becomes a negative errno if it is 0 and the question could not be asked:
// there is no memory, the file cannot be read.
int64_t sql_number_or_failure(struct sqlite3 *handle, const char *sql, int64_t otherwise,
                              int *ret_failure);

// The same where no failure can hurt.
int64_t sql_number(struct sqlite3 *handle, const char *sql, int64_t otherwise);

// The id behind those that the table has; 0 if it has none; a negative errno.
int64_t table_next_id(struct sqlite3 *handle, enum table_id table);
