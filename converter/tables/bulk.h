// SPDX-License-Identifier: Apache-2.0
//
// Fast insertion of many rows into empty tables of a finished database. The writer of traces
// (writer.h) writes the rows as pages after the pages of the file.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "converter/tables/database.h"

struct sqlite3;
struct bulk;

// Opens a bulk for `tables`. `handle` is borrowed. `handle` must not be in a transaction, and must
// not write before bulk_free(). *ret is NULL if a table has rows or an index: rows.h then uses
// statements. `budget` is borrowed; NULL: no limit. Returns 0 or a negative errno with text.
int bulk_open(struct sqlite3 *handle, const enum table_id *tables, size_t n_tables,
              struct budget *budget, struct err *err, struct bulk **ret);

// Returns true if the bulk takes rows of the table. `bulk` may be NULL.
bool bulk_has(const struct bulk *bulk, enum table_id table);

// Returns the id of the next row.
int64_t bulk_next_id(const struct bulk *bulk, enum table_id table);

// Adds a row. The cells are copied, but not their texts, which must live until bulk_finish().
// Returns the row's id. bulk_error() returns failures.
int64_t bulk_put(struct bulk *bulk, enum table_id table, const struct cell *row);

// Adds rows to a table whose columns are an id and a number. Returns the id of the first row.
int64_t bulk_put_numbers(struct bulk *bulk, enum table_id table, const int64_t *numbers, size_t n);

// Returns the first failure, or 0.
int bulk_error(const struct bulk *bulk);

// Writes all rows into the file, so that the budget counts them.
void bulk_settle(struct bulk *bulk);

// Completes the file. `handle` then sees the rows. Returns 0 or a negative errno with text.
int bulk_finish(struct bulk *bulk, struct err *err);

// Frees the bulk. Without a successful bulk_finish(), restores the file.
struct bulk *bulk_free(struct bulk *bulk);
