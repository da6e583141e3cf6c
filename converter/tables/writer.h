// SPDX-License-Identifier: Apache-2.0
//
// Hands batches of rows to SQLite in a thread of its own, so that reading the trace and writing the
// database use two processors. The queue is short: a trace that is read faster than SQLite writes
// makes its reader wait, not memory grow.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/arena.h"
#include "converter/tables/database.h"

#define BATCH_ROWS 512

// Rows of one table, all cells of a row side by side.
struct batch {
    struct cell *cells; // owned, BATCH_ROWS * the table's n_stored; NULL: none yet
    size_t n_rows;
    struct arena copies; // texts of these rows that have no other home
};

struct writer;

// Makes the tables "temp.batch_NAME" on `handle`, which belongs to the writer's thread from now on,
// except between writer_drain() and the next writer_put(). 0 or an SQLite code.
int writer_start(struct sqlite3 *handle, struct writer **ret);

// Takes what the batch holds and leaves it empty. Waits if the queue is full. 0, or the SQLite code
// of an earlier failure: then the rows are dropped.
int writer_put(struct writer *writer, enum table_id table, struct batch *batch);

// Waits until everything is written. 0 or the SQLite code of the first failure.
int writer_drain(struct writer *writer);

// Drops what is not written yet and waits for what is being written. Texts of cells may go
// afterwards.
void writer_abandon(struct writer *writer);

// Ends the thread and releases the statements, which must happen before the handle is closed.
struct writer *writer_free(struct writer *writer);

void batch_done(struct batch *batch);
