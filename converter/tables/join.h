// SPDX-License-Identifier: Apache-2.0
//
// Joining of databases: the rows of a finished database go into another database, with new ids.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "converter/tables/database.h"
#include "converter/tables/meaning.h"

struct sqlite3;

// Finds the shifts to the next ids of the database `handle`. If a part was made with these shifts
// (database_shift_ids()), database_join() copies the rows of the part unchanged. Returns 0 or a
// negative errno.
int join_shifts_find(struct sqlite3 *handle, struct id_shifts *ret);

struct join {
    bool shifted;     // the part's rows have their final ids already
    int64_t ts_shift; // added to times
    int64_t trace_id; // trace_id of the rows
};

// Copies the rows of the database file `part` into `handle`, which must not be in a transaction.
// Both must be databases of this program. Returns 0 or a negative errno with text.
int database_join(struct sqlite3 *handle, const char *part, const struct join *join,
                  struct err *err);

// Checks that the database has all tables and columns of this program. Returns 0 or a negative
// errno with text: -EINVAL if a table or column is missing.
int database_same_schema(struct sqlite3 *handle, const char *path, struct err *err);
