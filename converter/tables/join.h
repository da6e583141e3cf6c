// SPDX-License-Identifier: Apache-2.0
//
// One database of several: the rows of a finished database, with new ids, into another one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "converter/tables/database.h"
#include "converter/tables/schema.h"

struct sqlite3;

// What a column's number means, and so what becomes of it when its row gets into other company.
enum column_sense {
    SENSE_PLAIN,   // itself
    SENSE_ID,      // of the row
    SENSE_ROW,     // id of a row of the table `of`
    SENSE_SPACE,   // shared by the rows that belong together; numbers of the table `of`
    SENSE_MACHINE, // a machine
    SENSE_UCPU,    // a processor, see CPUS_MAX
    SENSE_TIME,    // a moment of the trace's clock
    SENSE_TRACE,   // a trace
};

struct column_meaning {
    const char *table; // NULL: of any table
    const char *column;
    enum column_sense sense;
    enum table_id of;
};

// Of a column; SENSE_PLAIN for those that no list has.
struct column_meaning column_meaning_of(enum table_id table, const struct column_def *column);

// Whether a number with this name could be taken for an id, so that it must be in a list.
bool column_must_have_meaning(const char *name);

// Numbers of the rows that come next in the database `handle`: given to database_shift_ids(), they
// make one whose rows join() copies as they are.
int join_shifts_find(struct sqlite3 *handle, struct id_shifts *ret);

struct join {
    bool shifted;     // the part's rows have their final ids already
    int64_t ts_shift; // added to times
    int64_t trace_id; // that the rows get
};

// The rows of the database file `part` into `handle`, which is in no transaction that has read
// `part`. Both must have been made by this program.
int database_join(struct sqlite3 *handle, const char *part, const struct join *join,
                  struct err *err);

// Checks that the database has all tables as this program makes them. -EINVAL.
int database_same_schema(struct sqlite3 *handle, const char *path, struct err *err);
