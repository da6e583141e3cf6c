// SPDX-License-Identifier: Apache-2.0
//
// The indexes of a database, and their SQL.
//
// An index of a table with millions of rows begins with the group of the row (a track, a thread),
// then the time. The index serves queries on one group, on one group in a time window, and on all
// groups in a time window (SQLite skips from group to group if sqlite_stat1 shows few groups).
// Slices have an index by time alone, too: they have many tracks, and their rows come nearly in
// order of time, so the rows of a window are neighbours. The last columns of an index are the
// columns that these queries sum up. Without these columns, SQLite would look up each row in the
// table, in random order. Slices have an index by name alone, for slices of one name or of names
// that begin alike (GLOB 'name*').
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/str.h"
#include "converter/tables/schema.h"

// The rows of a clustered table are the entries of its first index, and are stored only there.
// SQLite calls such a table WITHOUT ROWID.
#define INDEX_COLUMNS_MAX 4
#define ENTRY_COLUMNS_MAX 5

// Indexes and clustered tables that are built while rows arrive (see row_index.h and text_index.h).
enum index_id {
    INDEX_ARG_SET_BY_KIND,
    INDEX_COUNTER,
    INDEX_SCHED_SLICE_BY_THREAD,
    INDEX_SLICE_BY_NAME,
    INDEX_SLICE_BY_TIME,
    INDEX_SLICE_BY_TRACK,
    INDEX_THREAD_STATE_BY_THREAD,
    N_INDEXES
};

// In place of the group: all rows are one group.
#define NO_GROUP UINT8_MAX

// The only column of an index by text is the text. In other indexes, the first column is a group or
// NO_GROUP, the next columns are times, and the fourth column is a text. The entries of an index
// end with the row's id, which `columns` lacks.
struct index_def {
    const char *name;
    enum table_id table;
    uint8_t columns[ENTRY_COLUMNS_MAX]; // places in a stored row
    uint8_t n_columns;
    uint8_t n_key; // columns that the entries are sorted by, without the id of an index
    bool is_table; // the entries are the rows of a clustered table
    bool is_text;  // an index by text
};
extern const struct index_def index_defs[N_INDEXES];

static inline bool index_has_group(const struct index_def *def)
{
    return def->columns[0] != NO_GROUP;
}

// A written index.
struct index_result {
    uint32_t root;                          // root page; 0: SQLite must make the index
    uint64_t n;                             // entries
    uint64_t n_distinct[INDEX_COLUMNS_MAX]; // distinct values of the first 1, 2, ... key columns
};

// Returns the definition of a clustered table, or NULL if the table is not clustered.
const struct index_def *table_cluster(enum table_id table);

// Adds the CREATE INDEX statement.
void index_sql(struct strbuf *sql, const struct index_def *def);

// Adds the end of a clustered table's CREATE TABLE statement, from the closing bracket on.
void cluster_sql(struct strbuf *sql, const struct index_def *def);

// SQL that makes the indexes of smaller tables, and SQL that analyzes these tables.
extern const char small_indexes_sql[];
extern const char small_indexes_analyze_sql[];

// SQL that makes an index on the ids of counters. The sets of counters of samples refer to counters
// by these ids.
extern const char counter_ids_sql[];

// SQL that completes the statistics of a new database.
extern const char text_index_size_sql[];

// SQL that updates the statistics of all tables after rows were added.
extern const char analyze_sql[];
