// SPDX-License-Identifier: Apache-2.0
//
// Turns batches of rows into pages of an SQLite file, in a thread of its own, so that reading the
// trace and writing the database use two processors. The queue is short: a trace that is read
// faster than it is written makes its reader wait, not memory grow.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "converter/tables/batch.h"
#include "converter/tables/id_shifts.h"
#include "converter/tables/record_format.h"
#include "converter/tables/row_index.h"

struct writer;

// Writes into `fd`, which is borrowed, from page `first_page` on: 2 in a new file. What has to wait
// goes into files in `folder`, which is copied. 0 or a negative errno.
int writer_start(int fd, const char *folder, uint32_t first_page, struct writer **ret);

// Of all rows; before the first. Borrowed.
void writer_shift_ids(struct writer *writer, const struct id_shifts *shifts);

// What the file and those in the folder may take; before the first row. Borrowed; NULL: no limit.
void writer_budget(struct writer *writer, struct budget *budget);

// An empty batch, or NULL if memory is out.
struct batch *writer_batch(struct writer *writer);

// Takes the batch. Waits if the queue is full. 0, or the negative errno of an earlier failure: then
// the rows are dropped.
int writer_put(struct writer *writer, enum table_id table, struct batch *batch);

// Waits until everything is taken over: texts of cells may go. 0 or the first failure.
int writer_drain(struct writer *writer);

// Drops what is not written yet and waits for what is being written. Texts of cells may go
// afterwards.
void writer_abandon(struct writer *writer);

// What the file has; the schema does not know it yet.
struct writer_result {
    uint32_t roots[N_TABLES]; // pages
    struct row_index_result indexes[N_INDEXES];
};

// Completes the file; not_indexed[] is true for tables whose index is not to be made here. 0 or a
// negative errno.
int writer_finish(struct writer *writer, uint32_t application_id, const bool not_indexed[N_TABLES],
                  struct writer_result *ret);

// Completes a file that SQLite has made: trees of the tables that have a page in `roots` take the
// place of what is there, which must be a single page. Other tables have no rows here. 0 or a
// negative errno.
int writer_finish_grown(struct writer *writer, const uint32_t roots[N_TABLES]);

// Ends the thread.
struct writer *writer_free(struct writer *writer);
