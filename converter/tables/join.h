// SPDX-License-Identifier: Apache-2.0
//
// Joining of databases: the rows of a finished database go into another database, with new ids.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "converter/tables/database.h"
#include "converter/tables/schema.h"

struct sqlite3;

// The meaning of a column's number, which decides how a join changes the number.
enum column_sense {
    SENSE_PLAIN,   // a plain number, unchanged
    SENSE_ID,      // id of the row
    SENSE_ROW,     // id of a row of the table `of`
    SENSE_SPACE,   // shared by rows that belong together; numbered in the table `of`
    SENSE_MACHINE, // a machine
    SENSE_UCPU,    // a processor, see CPUS_MAX
    SENSE_TIME,    // time of the trace's clock
    SENSE_TRACE,   // a trace
};

struct column_meaning {
    const char *table; // NULL: of any table
    const char *column;
    enum column_sense sense;
    enum table_id of;
};

// Returns the meaning of a column. A column that no list has is SENSE_ID if it is the key, else
// SENSE_PLAIN.
struct column_meaning column_meaning_of(enum table_id table, const struct column_def *column);

// Returns true if a column of this name could be an id, so that the list must have it.
bool column_must_have_meaning(const char *name);

// Finds the shifts to the next ids of the database `handle`. If a part was made with these shifts
// (database_shift_ids()), database_join() copies its rows unchanged. Returns 0 or a negative errno.
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
// errno with text; -EINVAL if not.
int database_same_schema(struct sqlite3 *handle, const char *path, struct err *err);
