// SPDX-License-Identifier: Apache-2.0
//
// Insertion of single rows into an open database, for files that are added to finished traces. Rows
// go through prepared statements, or into a bulk. Traces use database.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "converter/tables/bulk.h"
#include "converter/tables/schema.h"
#include "converter/tables/statement.h"

#define ROWS_CELLS_MAX 16

// All zero is closed.
struct rows {
    const struct table_def *def;
    enum table_id table;
    struct bulk *bulk; // borrowed; NULL: `insert` is used
    struct cell cells[ROWS_CELLS_MAX];
    struct sqlite3_stmt *insert; // owned
    int64_t next_id;
    int code; // SQLite's code of the first failure
};

// Opens a table. The ids of new rows follow the ids of the table. Returns 0 or a negative errno
// with text.
int rows_open(struct rows *rows, struct sqlite3 *handle, enum table_id table, struct err *err);

// As rows_open(); rows go into `bulk` (borrowed, may be NULL) if `bulk` takes rows of the table.
int rows_open_bulk(struct rows *rows, struct sqlite3 *handle, struct bulk *bulk,
                   enum table_id table, struct err *err);

// The functions below set the values of the row that rows_put() writes. Columns that are not set
// are NULL.
void rows_int(struct rows *rows, size_t column, int64_t value);
void rows_real(struct rows *rows, size_t column, double value);
// Sets a text. The text must live until rows_put(), or in a bulk until bulk_finish(). Bytes that
// are not UTF-8 become U+FFFD.
void rows_text(struct rows *rows, size_t column, const char *text, size_t size);

// Adds the row. Returns its id, if the table has ids. rows_error() returns failures.
int64_t rows_put(struct rows *rows);

// Adds a row for each number to a table of an id and the column `column`.
void rows_put_numbers(struct rows *rows, size_t column, const int64_t *numbers, size_t n);

// Returns the first failure with text, or 0.
int rows_error(const struct rows *rows, struct err *err);
void rows_close(struct rows *rows); // fit for CLEANUP()
