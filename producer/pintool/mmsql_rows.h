// SPDX-License-Identifier: Apache-2.0
//
// Questions to a database, by way of the program `mmsql`: pintool does without SQLite, which small
// devices do not need for anything else.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define MMSQL_COLUMNS_MAX 8

struct mmsql {
    const char *program; // borrowed; NULL: beside this program, in its build tree, or in PATH
    const char *db;      // borrowed
};

// Makes the database `db` of the trace. 0 or a negative errno with text.
int mmsql_convert(const struct mmsql *mmsql, const char *trace, struct err *err);

// Calls `row` for each row of the answer, with its integers; NULL counts as 0. Text columns are
// asked for as hex(TEXT) and come in `texts`, which is valid until the next row. A failure of `row`
// ends the query and is returned. 0 or a negative errno with text.
struct mmsql_row {
    size_t n;
    int64_t values[MMSQL_COLUMNS_MAX];
    const char *texts[MMSQL_COLUMNS_MAX]; // hexadecimal or decimal, as it came
};
int mmsql_query(const struct mmsql *mmsql, const char *sql,
                int (*row)(void *userdata, const struct mmsql_row *row), void *userdata,
                struct err *err);
