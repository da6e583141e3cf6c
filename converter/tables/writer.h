// SPDX-License-Identifier: Apache-2.0
//
// The writer turns batches of rows into pages of an SQLite file, in its own thread, so that reading
// the trace and writing the database use two processors. The queue is short: if reading is faster
// than writing, the reader waits, and memory does not grow.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "converter/tables/batch.h"
#include "converter/tables/id_shifts.h"
#include "converter/tables/record_format.h"
#include "converter/tables/row_index.h"

struct writer;

// Starts a writer into `fd` (borrowed) from page `first_page` on: 2 in a new file. `folder`
// (copied) is for temporary files. Returns 0 or a negative errno.
int writer_start(int fd, const char *folder, uint32_t first_page, struct writer **ret);

// Sets the shifts (borrowed) of all rows. Must be called before the first row.
void writer_shift_ids(struct writer *writer, const struct id_shifts *shifts);

// Sets the budget (borrowed; NULL: no limit) of the file and the temporary files. Must be called
// before the first row.
void writer_budget(struct writer *writer, struct budget *budget);

// Returns an empty batch, or NULL if memory ran out.
struct batch *writer_batch(struct writer *writer);

// Takes ownership of the batch. Waits if the queue is full. Returns 0, or the negative errno of an
// earlier failure; the rows are then dropped.
int writer_put(struct writer *writer, enum table_id table, struct batch *batch);

// Waits until all batches are written; texts of cells may then be freed. Returns 0 or the first
// failure.
int writer_drain(struct writer *writer);

// Drops the waiting batches and waits for the current batch. Texts of cells may then be freed.
void writer_abandon(struct writer *writer);

// The trees in the file, which are not in SQLite's schema yet.
struct writer_result {
    uint32_t roots[N_TABLES]; // pages
    struct index_result indexes[N_INDEXES];
};

// Moves all rows of a group of a clustered table (see indexes.h) to another group, also rows that
// are added later. Returns 0 or -ENOMEM.
int writer_move_group(struct writer *writer, enum table_id table, uint32_t from, uint32_t to);

// Completes the file. Returns 0 or a negative errno.
int writer_finish(struct writer *writer, uint32_t application_id, struct writer_result *ret);

// Completes a file that SQLite has made. If a table has a page in `roots`, the root of its new tree
// overwrites the page, which must be the table's only page. Other tables must have no rows. Returns
// 0 or a negative errno.
int writer_finish_grown(struct writer *writer, const uint32_t roots[N_TABLES]);

// Ends the thread and frees the writer.
struct writer *writer_free(struct writer *writer);
