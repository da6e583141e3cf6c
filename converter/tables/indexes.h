// SPDX-License-Identifier: Apache-2.0
//
// The indexes of a database: which there are, and how SQLite is told.
//
// Those of tables with millions of rows begin with what groups the rows (a track, a thread), then
// comes the time: so they serve questions about one group, about one group in a window of time, and
// (as SQLite goes from group to group, where sqlite_stat1 says that there are few) about all
// groups in a window. What such questions sum up comes last, or SQLite would have to look into the
// table for each row, in an order that the table does not have.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/str.h"
#include "converter/tables/schema.h"

#define INDEX_COLUMNS_MAX 4

// Made from rows as they are written (see row_index.h).
enum index_id {
    INDEX_ARG_SET_BY_KIND,
    INDEX_COUNTER_BY_TRACK,
    INDEX_SCHED_SLICE_BY_THREAD,
    INDEX_SLICE_BY_TRACK,
    INDEX_THREAD_STATE_BY_THREAD,
    N_INDEXES
};

// Columns are numbers: a group, then times; the fourth is a text.
struct index_def {
    const char *name;
    enum table_id table;
    uint8_t columns[INDEX_COLUMNS_MAX]; // places in a stored row
    uint8_t n_columns;
};
extern const struct index_def index_defs[N_INDEXES];

// Adds the statement that makes it.
void index_sql(struct strbuf *sql, const struct index_def *def);

// Indexes of smaller tables, which SQLite makes, and what has it ANALYZE them.
extern const char small_indexes_sql[];
extern const char small_indexes_analyze_sql[];

// Has SQLite look at all tables again, after rows have come that the figures do not know.
extern const char analyze_sql[];
