// SPDX-License-Identifier: Apache-2.0
//
// The database that a conversion writes. Rows are collected in a batch for each table, and the
// writer writes whole batches. The rows go into a temporary file beside the target. The file gets
// the target's name at the end: a failed conversion leaves no partial database, and the old
// database is unchanged.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "converter/tables/cell.h"
#include "converter/tables/event_rows.h"
#include "converter/tables/id_shifts.h"
#include "converter/tables/schema.h"

struct sqlite3;

struct budget;
struct database;

// The tables that a conversion fills (selection.h). All zero selects everything.
struct selection {
    bool dropped[N_TABLES];
    bool no_args;            // no arg sets except kernel events
    bool no_events;          // no rows of kernel events; rows made from events are kept
    bool no_event_fields;    // kernel events without their fields
    bool crops_track_events; // no rows of track events before the range of interest
};

// Returns 0 if `path` does not exist, is empty, or is a database of this program; otherwise -EEXIST
// or another negative errno with text.
int database_target_check(const char *path, struct err *err);

// Makes the temporary file for `path`, after database_target_check(). If `path` is NULL, the
// database is removed when it is closed. Returns 0 or a negative errno with text.
int database_create(const char *path, struct err *err, struct database **ret);

// From now on, rows of tables that are not selected are discarded. `selection` is borrowed.
void database_select(struct database *db, const struct selection *selection);
const struct selection *database_selection(const struct database *db);

// Adds `shifts` (borrowed) to the ids that are written. Must be called before the first row. For
// callers, ids still count from 0.
void database_shift_ids(struct database *db, const struct id_shifts *shifts);

// Adds a row. All cells are NULL except the key, which is *ret_id (`ret_id` may be NULL); ids count
// from 0. The cells are valid until the next call. Never returns NULL: after a failure, rows are
// discarded, and database_error() returns the failure.
struct cell *database_row(struct database *db, enum table_id table, int64_t *ret_id);

// Reserves an id for a row that the caller can complete only later. database_row_with_id() then
// adds the row.
int64_t database_reserve_id(struct database *db, enum table_id table);
struct cell *database_row_with_id(struct database *db, enum table_id table, int64_t id);

// Adds a row whose width differs from the table's width. Missing cells at the end are NULL.
struct cell *database_row_sized(struct database *db, enum table_id table, int64_t id, size_t width);

// Adds a row of a kernel event and gives the row its id.
void database_event(struct database *db, const struct event_row *event);

// Returns a row that is discarded, in place of an unwanted row.
struct cell *database_nowhere(struct database *db);

// Copies bytes for the last row. Returns the copy, which lives as long as the row.
const void *database_copy(struct database *db, const void *bytes, size_t size);

// Sets the budget (borrowed) of the database and its temporary files. Must be called before the
// first row.
void database_budget(struct database *db, struct budget *budget);

// Returns the failure that ends the conversion. The database and all code that makes rows share
// this failure.
struct failure *database_failure(struct database *db);

// Returns the first failure with text, or 0.
int database_error(const struct database *db, struct err *err);

uint64_t database_n_rows(const struct database *db, enum table_id table);

// Waits until all rows are written; the texts of cells may then be freed. Returns 0 or a negative
// errno with text.
int database_flush(struct database *db, struct err *err);

// Cancels the conversion: no more rows are written, and the texts of cells may be freed.
void database_abandon(struct database *db);

// Moves all rows of a track to another track, also rows that are added later. `table` must be
// clustered by track (see indexes.h).
void database_move_track(struct database *db, enum table_id table, uint32_t from, uint32_t to);

// Writes the remaining rows, makes views and indexes, and gives the file its name, if it has one.
// Calls `goes_on` (NULL: always true) from time to time; false ends the work with -ECANCELED.
// Returns 0 or a negative errno with text.
int database_finish(struct database *db, bool (*goes_on)(void *userdata), void *userdata,
                    struct err *err);

// Returns SQLite's handle (borrowed), for queries on a database without path after
// database_finish().
struct sqlite3 *database_handle(struct database *db);

// Returns the size of the finished file in bytes.
uint64_t database_n_bytes(const struct database *db);

// Closes the database. Without database_finish(), removes the temporary file.
struct database *database_free(struct database *db);

// PRAGMA user_version of every database. The number grows when a table or column is removed, or
// changes its name or meaning. New tables and columns do not change the number.
#define DATABASE_SCHEMA_VERSION 1

// PRAGMA application_id of every database ("mmsq"), by which mmsql recognises its own databases.
#define DATABASE_APPLICATION_ID 0x6d6d7371
