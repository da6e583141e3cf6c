// SPDX-License-Identifier: Apache-2.0
//
// The shared part of the engine's files.
#pragma once

#include "converter/perfetto_sql/macros.h"
#include "converter/perfetto_sql/rope.h"
#include "converter/perfetto_sql/sql_definition.h"

struct scalar;
struct sqlite3;
struct sqlite3_stmt;
VEC_DEFINE(scalar_vec, struct scalar *);
VEC_DEFINE(sql_text_vec, struct sql_text *);

// A statement of the prelude that was left out, because it reads an internal table that is missing.
struct sql_left_out {
    char *name, *table; // owned
};
VEC_DEFINE(sql_left_out_vec, struct sql_left_out);

enum sql_stage {
    STAGE_DONE,
    STAGE_INTERNAL_TABLES, // the engine creates its internal tables
    STAGE_PRELUDE,         // the prelude of the user's library runs
};

VEC_DEFINE(sql_names, char *);

#define LEGACY_N 4

// A function of legacy.c.
struct legacy_of {
    struct sql_engine *engine;   // borrowed
    const struct legacy *legacy; // borrowed
};

struct sql_engine {
    struct sqlite3 *handle;        // borrowed
    struct sql_packages *packages; // borrowed
    struct sql_macros macros;
    struct sql_text_vec texts; // owned
    struct scalar_vec scalars; // owned; the functions that statements created
    struct legacy_of legacies[LEGACY_N];
    struct sql_names kept_tables; // made by CREATE PERFETTO TABLE: SQL must not change their rows
    struct sql_names table_functions;
    struct strbuf error;
    struct sql_piece here; // the place of the running statement
    struct strbuf calls;   // places of calls of functions that failed in the statement
    unsigned n_calls;
    struct column_scan *scan;                // borrowed; of columns.c
    const struct sql_package_module *module; // borrowed; the running module; NULL: none
    bool is_mixed;  // a column may have values of another type than SQLite declares
    unsigned depth; // of modules that include each other
    enum sql_stage stage;
    bool has_internal_tables;
    struct sql_left_out_vec left_out; // owned
};

// Sets the error: the formatted text, and the place `at` in `rope`. If `at` is NULL, the place is
// that of the statement. Returns `r`.
__attribute__((format(printf, 5, 6))) int engine_fail(struct sql_engine *engine, int r,
                                                      const struct sql_rope *rope, const char *at,
                                                      const char *format, ...);

// Records that a call of a function failed. The call was written at `place`.
void engine_call_failed(struct sql_engine *engine, const char *name, struct sql_piece place);

// Sets the error from SQLite's last error. `at`: the text of the rope from which SQLite's offset
// counts; NULL: not known. Returns a negative errno.
int engine_fail_sqlite(struct sql_engine *engine, const struct sql_rope *rope, const char *at);

// Prepares the rope's text. Returns 0 or a negative errno.
int engine_prepare(struct sql_engine *engine, const struct sql_rope *rope,
                   struct sqlite3_stmt **ret);

// Both functions run a statement to its end. They return 0 or a negative errno.
int engine_run_rope(struct sql_engine *engine, const struct sql_rope *rope);
__attribute__((format(printf, 2, 3))) int engine_run(struct sql_engine *engine, const char *format,
                                                     ...);

// Runs all statements of a text. Rows are an error, whose text names `what`.
int engine_run_text(struct sql_engine *engine, const struct sql_text *text, const char *what);

// Must be called for each statement of a person that may put values of any type into a column.
void engine_mixed_note(struct sql_engine *engine);

// names.c
//
// Returns the name without quotes, which the caller frees, or NULL if memory ran out.
char *engine_name(struct sql_part part);
bool names_have(const struct sql_names *names, const char *name);
int names_add(struct sql_names *names, const char *name); // 0 or -ENOMEM
void names_remove(struct sql_names *names, const char *name);
void names_done(struct sql_names *names);

// create.c: runs a definition, whose parts lie in the text of `rope`.
int create_run(struct sql_engine *engine, const struct sql_rope *rope,
               const struct sql_definition *definition);

// columns.c: the columns of a relation.
//
// Checks names and types of the columns of `statement`, and of the columns that the definition
// declares.
int columns_check(struct sql_engine *engine, const struct sql_rope *rope,
                  const struct sql_definition *definition, struct sqlite3_stmt *statement);
// The values of a table's columns. All zero is empty.
struct column_values {
    bool has_reals;      // the numbers of a column must become reals
    bool ids_rise;       // the table has many rows, and the column id rises from row to row
    struct strbuf reals; // the columns of a SELECT that makes the numbers reals
};

void values_done(struct column_values *values); // fit for CLEANUP()

// Checks the values of the table: each column has values of one type. `rows` is a SELECT of all its
// columns. `trusts`: the types that SQLite declares are right.
int columns_check_values(struct sql_engine *engine, const struct sql_definition *definition,
                         const char *table, struct sqlite3_stmt *rows, bool trusts,
                         struct column_values *ret);
int columns_register(struct sql_engine *engine);

// scalar.c: functions that return one value.
//
// Makes a function of the rope, which is SQL with the arguments as $name. Takes ownership of the
// rope. If the definition delegates, the arguments are ?1 to ?n; for any number of arguments, the
// SQL ends after the opening parenthesis. Returns SQLite's code, or SQLITE_CONSTRAINT if there is a
// function of this name already.
int scalar_add(struct sql_engine *engine, const struct sql_definition *definition,
               struct sql_rope *sql, struct scalar **ret);
// Prepares the function's SQL. Returns 0 or a negative errno.
int scalar_prepare(struct sql_engine *engine, struct scalar *scalar);
// From now on, keeps the results of a function. Returns false if no function of this name takes one
// number.
bool scalar_memoize(struct sql_engine *engine, const char *name);
void scalars_free(struct sql_engine *engine);

// legacy.c: the functions CREATE_FUNCTION, CREATE_VIEW_FUNCTION, EXPERIMENTAL_MEMOIZE and IMPORT.
int legacy_register(struct sql_engine *engine);
// Runs a statement that calls one of these functions and does nothing else. Returns 1, or 0 for any
// other statement.
int legacy_statement(struct sql_engine *engine, const char *sql, size_t size);

// library_tables.c: __intrinsic_stdlib_modules and its companions.
int library_tables_register(struct sql_engine *engine);

// prelude.c: runs the prelude of the user's library, before the first statement.
int prelude_run(struct sql_engine *engine);

// Must be called after SQLite has refused `sql`. If an internal table was missing, makes the
// internal tables that `sql` names. Returns 1 if `sql` can be tried again; 0 after any other error
// of SQLite; or a negative errno.
int prelude_supply(struct sql_engine *engine, const char *sql);

// Returns 0 instead of the error `r` if a definition of the prelude failed only because an internal
// table is missing; otherwise returns `r`.
int prelude_forgive(struct sql_engine *engine, const struct sql_definition *definition, int r);

// Returns whether the cause of the last error is a missing internal table or function.
bool prelude_lacks(const struct sql_engine *engine);

// Returns the missing internal table because of which the table in SQLite's message was left out,
// or NULL.
const char *prelude_missing(const struct sql_engine *engine, const char *message);
void left_out_free(struct sql_engine *engine);

// Returns whether the prelude defines an object that the database or mmsql already has.
bool prelude_has(struct sql_engine *engine, const struct sql_definition *definition);

// row_numbers.c: replaces the column _auto_id, the row's number from 0, by an expression of SQLite.
// Returns 0 or -ENOMEM.
int row_numbers_replace(struct sql_rope *rope);

// newer_sql.c: replaces SQL that only newer versions of SQLite have. `version` is SQLite's version
// as a number (3.44.0 is 3044000). Returns 0 or -ENOMEM.
int newer_sql_replace(struct sql_rope *rope, int version);

// table_calls.c: if SQLite's message says that a table cannot be called, writes the rope anew to
// `ret`, with tables instead of calls of tables. Returns 1 if the rope was written, 0 for another
// message, or -1 if memory ran out.
int table_calls_replace(const struct sql_rope *rope, const char *message, struct sql_rope *ret);

// hash_grouping.c: prepares a SELECT with GROUP BY anew if a hash table groups its rows faster.
// *statement is the plain statement. Returns false if *statement was not replaced.
bool hash_grouping_prepare(struct sqlite3 *handle, const struct sql_rope *rope,
                           struct sqlite3_stmt **statement);
