// SPDX-License-Identifier: Apache-2.0
//
// Turns batches of rows into pages of an SQLite file, in a thread of its own, so that reading the
// trace and writing the database use two processors. The queue is short: a trace that is read
// faster than it is written makes its reader wait, not memory grow.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/arena.h"
#include "converter/tables/database.h"
#include "converter/tables/record_format.h"
#include "converter/tables/row_index.h"

#define BATCH_ROWS    1024
#define BATCH_CELLS   6144
#define BATCH_NUMBERS (BATCH_CELLS * sizeof(struct cell) / sizeof(int64_t))

// Rows of one table, their cells one behind the other; or, of a table of an id and one number, the
// numbers alone.
struct batch {
    size_t n_rows, n_cells;
    size_t n_numbers;
    struct arena copies;        // texts of these rows that have no other home
    uint8_t widths[BATCH_ROWS]; // cells of each row
    union {
        struct cell cells[BATCH_CELLS];
        int64_t numbers[BATCH_NUMBERS];
    };
};

// Takes a row of `width` cells, all NULL. NULL: the batch is full.
struct cell *batch_row(struct batch *batch, size_t width);

// Takes as many of the numbers as there is room for, whose rows have the next ids; none beside
// other rows. Returns how many.
size_t batch_numbers(struct batch *batch, const int64_t *numbers, size_t n);

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

// For batches that were not put.
struct batch *batch_free(struct batch *batch);
