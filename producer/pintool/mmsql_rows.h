// SPDX-License-Identifier: Apache-2.0
//
// Asks a database through the program `mmsql`: pintool needs no SQLite, for which small devices
// have no other use.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define MMSQL_COLUMNS_MAX 8

struct mmsql {
    const char *program; // borrowed; NULL: beside this program, in its build tree, or in PATH
    const char *db;      // borrowed
};

// Converts the trace to the database `db`. Returns 0 or a negative errno with text.
int mmsql_convert(const struct mmsql *mmsql, const char *trace, struct err *err);

// Calls `row` for each row of the answer. `values` has the integers; NULL counts as 0. The query
// selects text columns as hex(TEXT); `texts` has them until the next row. A failure of `row` ends
// the query. Returns 0 or a negative errno with text.
struct mmsql_row {
    size_t n;
    int64_t values[MMSQL_COLUMNS_MAX];
    const char *texts[MMSQL_COLUMNS_MAX]; // as printed by mmsql
};
int mmsql_query(const struct mmsql *mmsql, const char *sql,
                int (*row)(void *userdata, const struct mmsql_row *row), void *userdata,
                struct err *err);
