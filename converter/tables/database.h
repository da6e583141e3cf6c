// SPDX-License-Identifier: Apache-2.0
//
// The database that a conversion writes. Rows are gathered in a batch per table and written a batch
// at a time. Everything goes into a file beside the target, which takes the target's name only when
// all is well: a failed conversion leaves no half database behind and an old one as it was.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "converter/tables/cell.h"
#include "converter/tables/id_shifts.h"
#include "converter/tables/schema.h"

struct sqlite3;

struct budget;
struct database;

// Which tables a conversion fills (selection.h). All zero keeps everything.
struct selection {
    bool dropped[N_TABLES];
    bool no_args;         // no sets of args but those of kernel events
    bool no_events;       // no rows of kernel events; what follows from them is kept
    bool no_event_fields; // kernel events without their fields
};

// -EEXIST or another error, unless `path` is absent, empty, or a database that this program made.
int database_target_check(const char *path, struct err *err);

// Makes the temporary file for `path`. `path` NULL makes a database that goes when it is closed.
// Refuses (-EEXIST) a target that exists and is not a database of this program.
int database_create(const char *path, struct err *err, struct database **ret);

// Rows of tables that are not selected lead nowhere from here on. Borrowed.
void database_select(struct database *db, const struct selection *selection);
const struct selection *database_selection(const struct database *db);

// Before the first row. Ids that callers see count from 0 all the same. Borrowed.
void database_shift_ids(struct database *db, const struct id_shifts *shifts);

// What an id of the table grows by.
int64_t database_id_shift(const struct database *db, enum table_id table);

// A new row with all cells NULL but the key, which is *ret_id (may be NULL): ids count from 0. The
// cells are valid until the next call. Never NULL: after a failure the row leads nowhere and
// database_error() tells.
struct cell *database_row(struct database *db, enum table_id table, int64_t *ret_id);

// For rows that are known in full only later: the id now, the row then.
int64_t database_reserve_id(struct database *db, enum table_id table);
struct cell *database_row_with_id(struct database *db, enum table_id table, int64_t id);

// A row of another width than the table's: what is missing at its end is NULL.
struct cell *database_row_sized(struct database *db, enum table_id table, int64_t id, size_t width);

// A row that leads nowhere, for those that are not wanted.
struct cell *database_nowhere(struct database *db);

// A copy that lives as long as the row made last needs it.
const void *database_copy(struct database *db, const void *bytes, size_t size);

// What the database and what is sorted for it may take; before the first row. Borrowed.
void database_budget(struct database *db, struct budget *budget);

// What ends the database: its own failures and those of all who make rows for it.
struct failure *database_failure(struct database *db);

// The first failure, or 0.
int database_error(const struct database *db, struct err *err);

uint64_t database_n_rows(const struct database *db, enum table_id table);

// Waits until all rows are written: the texts of cells may go.
int database_flush(struct database *db, struct err *err);

// The conversion is given up: no rows are written from here on, and texts of cells may go.
void database_abandon(struct database *db);

// SQL statements to be run when all rows are there. They change many rows of `table`, whose index
// is made afterwards.
void database_later(struct database *db, enum table_id table, const char *sql);

// Writes what is left, makes views and indexes and, if it is a file, gives it its name. `goes_on`
// (NULL: always) is asked from time to time; false ends it with -ECANCELED.
int database_finish(struct database *db, bool (*goes_on)(void *userdata), void *userdata,
                    struct err *err);

// SQLite's handle, for queries on a database without path after database_finish(). Borrowed.
struct sqlite3 *database_handle(struct database *db);

// Bytes of the finished file.
uint64_t database_n_bytes(const struct database *db);

// Closes; without database_finish() the temporary file is removed.
struct database *database_free(struct database *db);

// Written into every database, so that we recognise our own ("mmsq").
#define DATABASE_APPLICATION_ID 0x6d6d7371
