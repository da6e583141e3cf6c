// SPDX-License-Identifier: Apache-2.0
//
// Rows that come one by one into a database that is open already: for what is joined to finished
// traces. They go in by prepared statements, or in bulk where there is one. Traces themselves take
// the road of database.h.
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
    struct bulk *bulk; // borrowed; NULL: by statements
    struct cell cells[ROWS_CELLS_MAX];
    struct sqlite3_stmt *insert; // owned
    int64_t next_id;
    int code; // SQLite's code of the first failure
};

// Ids go on behind those that the table has. 0 or -EIO.
int rows_open(struct rows *rows, struct sqlite3 *handle, enum table_id table, struct err *err);

// The same; rows go into `bulk` (borrowed, may be NULL) if they belong there. 0 or -EIO.
int rows_open_bulk(struct rows *rows, struct sqlite3 *handle, struct bulk *bulk,
                   enum table_id table, struct err *err);

// Values of the row that rows_put() writes; columns that are not set are NULL.
void rows_int(struct rows *rows, size_t column, int64_t value);
void rows_real(struct rows *rows, size_t column, double value);
// Must live until rows_put(), in bulk until bulk_finish(); bytes that are no UTF-8 become U+FFFD.
void rows_text(struct rows *rows, size_t column, const char *text, size_t size);

// Returns the row's id, where the table has one. A failure shows in rows_error().
int64_t rows_put(struct rows *rows);

// A row for each number, in a table that has nothing else but an id; `column` is where they go.
void rows_put_numbers(struct rows *rows, size_t column, const int64_t *numbers, size_t n);

// The first failure, or 0.
int rows_error(const struct rows *rows, struct err *err);
void rows_close(struct rows *rows); // fit for CLEANUP()
