// SPDX-License-Identifier: Apache-2.0
//
// The indexes of a database, and their SQL.
//
// An index of a table with millions of rows begins with the group of the row (a track, a thread),
// then the time. The index serves queries on one group, on one group in a time window, and on all
// groups in a time window (SQLite skips from group to group if sqlite_stat1 shows few groups). The
// columns that these queries sum up come last. Without them, SQLite would look up each row in the
// table, in random order.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/str.h"
#include "converter/tables/schema.h"

#define INDEX_COLUMNS_MAX 4

// Indexes that are made from rows as they are written (see row_index.h).
enum index_id {
    INDEX_ARG_SET_BY_KIND,
    INDEX_COUNTER_BY_TRACK,
    INDEX_SCHED_SLICE_BY_THREAD,
    INDEX_SLICE_BY_TRACK,
    INDEX_THREAD_STATE_BY_THREAD,
    N_INDEXES
};

// Columns are numbers: a group, then times. The fourth column is a text.
struct index_def {
    const char *name;
    enum table_id table;
    uint8_t columns[INDEX_COLUMNS_MAX]; // places in a stored row
    uint8_t n_columns;
};
extern const struct index_def index_defs[N_INDEXES];

// Adds the CREATE INDEX statement.
void index_sql(struct strbuf *sql, const struct index_def *def);

// SQL that makes the indexes of smaller tables, and SQL that analyzes these tables.
extern const char small_indexes_sql[];
extern const char small_indexes_analyze_sql[];

// SQL that updates the statistics of all tables after rows were added.
extern const char analyze_sql[];
