// SPDX-License-Identifier: Apache-2.0
//
// Rows by the million into tables of a finished database that have none yet: as pages, behind those
// that the file has, by the same writer that traces take.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "converter/tables/database.h"

struct sqlite3;
struct bulk;

// For `tables`. `handle` is borrowed; it is in no transaction and does not write until the bulk is
// freed. *ret is NULL if one of them has rows or an index: then they take another road. 0 or a
// negative errno. `budget` is borrowed; NULL: none.
int bulk_open(struct sqlite3 *handle, const enum table_id *tables, size_t n_tables,
              struct budget *budget, struct err *err, struct bulk **ret);

// Whether rows of the table belong here.
bool bulk_has(const struct bulk *bulk, enum table_id table);

// The id of the row that is put next.
int64_t bulk_next_id(const struct bulk *bulk, enum table_id table);

// Takes a row, whose cells are copied; their texts must live until bulk_finish(). Returns its id. A
// failure shows in bulk_error().
int64_t bulk_put(struct bulk *bulk, enum table_id table, const struct cell *row);

// Rows of a table of an id and one number. Returns the first one's id.
int64_t bulk_put_numbers(struct bulk *bulk, enum table_id table, const int64_t *numbers, size_t n);

// The first failure, or 0.
int bulk_error(const struct bulk *bulk);

// What was put is in the file, so that the budget knows of it.
void bulk_settle(struct bulk *bulk);

// Completes the file: `handle` sees the rows from here on. 0 or a negative errno.
int bulk_finish(struct bulk *bulk, struct err *err);

// Without a bulk_finish() that succeeded, the file is as it was.
struct bulk *bulk_free(struct bulk *bulk);
