// SPDX-License-Identifier: Apache-2.0
//
// Rows of one table on their way to SQLite, and the virtual table through which SQLite takes them.
#pragma once

#include "common/arena.h"
#include "converter/tables/database.h"

struct sqlite3;
struct sqlite3_stmt;

#define BATCH_ROWS 512

struct batch {
    const struct table_def *def;
    struct cell *cells; // owned, BATCH_ROWS * def->n_stored, made on first use
    size_t n_rows;
    struct arena copies;         // texts of this batch that have no other home
    struct sqlite3_stmt *insert; // owned
    uint64_t n_written;          // rows handed over so far
    int64_t next_id;
};

// Makes the virtual tables "temp.batch_NAME" of all `n` batches known to `handle`. The batches must
// outlive it. 0 or an SQLite code.
int batch_attach(struct sqlite3 *handle, struct batch *batches, size_t n);

// Moves the rows over and empties the batch. 0 or an SQLite code.
int batch_flush(struct batch *batch, struct sqlite3 *handle);

void batch_done(struct batch *batch);
