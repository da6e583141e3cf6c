// SPDX-License-Identifier: Apache-2.0
//
// PerfettoSQL on an SQLite connection: runs the statements that Perfetto added to SQL, expands
// macros, and hands plain SQL back as prepared statements. Objects that statements create are
// temporary. Errors name the file, line and column that a person wrote, also inside macros and
// modules.
//
//     const struct sql_text *text = sql_engine_text(engine, "", "SELECT 1; SELECT 2");
//     size_t at = 0;
//     sqlite3_stmt *statement;
//     while ((r = sql_engine_next(engine, text, &at, &statement)) > 0)
//         ...step and finalize `statement`, unless it is NULL...
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "converter/perfetto_sql/rope.h"

struct sqlite3;
struct sqlite3_stmt;
struct sql_engine;
struct sql_packages;

// Makes an engine. `handle` and `packages` are borrowed. The engine must be freed before the
// connection is closed. Returns 0 or a negative errno.
int sql_engine_new(struct sqlite3 *handle, struct sql_packages *packages, struct sql_engine **ret);
struct sql_engine *sql_engine_free(struct sql_engine *engine);

// Returns a copy of the SQL, which lives as long as the engine, or NULL if memory ran out. `name`
// is for errors: a path, or "" for SQL that a person has just typed.
const struct sql_text *sql_engine_text(struct sql_engine *engine, const char *name,
                                       const char *sql);

// Runs or prepares the statement at *at, and moves *at past it. Returns 1, with a statement of
// plain SQL in *ret (owned by the caller) or NULL if the engine has run it; 0 at the end of the
// text; or a negative errno with text in sql_engine_error().
int sql_engine_next(struct sql_engine *engine, const struct sql_text *text, size_t *at,
                    struct sqlite3_stmt **ret);

// Must be called after a step of a statement has failed. Sets the text and places of
// sql_engine_error().
void sql_engine_step_failed(struct sql_engine *engine);

// Returns whether the result is not to be printed: the statement calls a function for its effect,
// or the name of the column says so.
bool sql_is_silent(struct sqlite3_stmt *statement);

// Includes the modules that `pattern` means: a name, "package.*" or "*".
int sql_engine_include(struct sql_engine *engine, const char *pattern);

const struct sql_packages *sql_engine_packages(const struct sql_engine *engine);

// Returns the last error: its message, then each place on a separate line.
const char *sql_engine_error(const struct sql_engine *engine);
