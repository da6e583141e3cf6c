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

// A statement of the prelude that was left out: it takes an internal table that is missing.
struct sql_left_out {
    char *name, *table; // owned
};
VEC_DEFINE(sql_left_out_vec, struct sql_left_out);

enum sql_stage {
    STAGE_DONE,
    STAGE_INTERNAL_TABLES, // the engine creates its internal tables
    STAGE_PRELUDE,         // of a library that was given
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
    struct scalar_vec scalars; // owned; the functions that were created
    struct legacy_of legacies[LEGACY_N];
    struct sql_names kept_tables; // of CREATE PERFETTO TABLE: SQL must not change their rows
    struct sql_names table_functions;
    struct strbuf error;
    struct sql_piece here; // where the statement that runs was written
    struct strbuf calls;   // the calls of functions within it that failed
    unsigned n_calls;
    struct column_scan *scan;                // borrowed; of columns.c
    const struct sql_package_module *module; // borrowed; the module that runs; NULL: none
    bool is_mixed;  // a column of SQLite may have values of another type than it says
    unsigned depth; // of modules that include each other
    enum sql_stage stage;
    bool has_internal_tables;
    struct sql_left_out_vec left_out; // owned
};

// Sets the error: `what`, and the place in `rope`; without `at`, that of the statement. Returns
// `r`.
__attribute__((format(printf, 5, 6))) int engine_fail(struct sql_engine *engine, int r,
                                                      const struct sql_rope *rope, const char *at,
                                                      const char *format, ...);

// Notes that a call of a function failed, whose SQL was written at `place`.
void engine_call_failed(struct sql_engine *engine, const char *name, struct sql_piece place);

// Sets SQLite's last error. `at`: a text of the rope that SQLite's offset counts from.
int engine_fail_sqlite(struct sql_engine *engine, const struct sql_rope *rope, const char *at);

// Prepares the rope's text from `begin`. 0 or a negative errno.
int engine_prepare(struct sql_engine *engine, const struct sql_rope *rope,
                   struct sqlite3_stmt **ret);

// Runs statements to their end.
int engine_run_rope(struct sql_engine *engine, const struct sql_rope *rope);
__attribute__((format(printf, 2, 3))) int engine_run(struct sql_engine *engine, const char *format,
                                                     ...);

// Runs all statements of a text. Rows are an error, and `what` returns them.
int engine_run_text(struct sql_engine *engine, const struct sql_text *text, const char *what);

// Called for each statement that a person wrote and that may have values of any type in a column.
void engine_mixed_note(struct sql_engine *engine);

// names.c
//
// The name without quotes, for free(). NULL: out of memory.
char *engine_name(struct sql_part part);
bool names_have(const struct sql_names *names, const char *name);
int names_add(struct sql_names *names, const char *name); // 0 or -ENOMEM
void names_remove(struct sql_names *names, const char *name);
void names_done(struct sql_names *names);

// create.c: runs what a definition says. Its parts lie in the text of `rope`.
int create_run(struct sql_engine *engine, const struct sql_rope *rope,
               const struct sql_definition *definition);

// columns.c: the columns of a relation.
//
// Checks the columns of `statement` and those that the definition declares: names and types.
int columns_check(struct sql_engine *engine, const struct sql_rope *rope,
                  const struct sql_definition *definition, struct sqlite3_stmt *statement);
// The values of a table's columns. All zero is empty.
struct column_values {
    bool has_reals;      // numbers of a column are to become reals
    bool ids_rise;       // the table has many rows, and the column id rises from row to row
    struct strbuf reals; // the columns of a SELECT that makes these numbers reals
};

void values_done(struct column_values *values); // fit for CLEANUP()

// Checks the values of the table: each column has values of one type. `rows` is a SELECT of all its
// columns. `trusts`: the types that SQLite declares hold.
int columns_check_values(struct sql_engine *engine, const struct sql_definition *definition,
                         const char *table, struct sqlite3_stmt *rows, bool trusts,
                         struct column_values *ret);
int columns_register(struct sql_engine *engine);

// scalar.c: functions that return one value.
//
// Makes the rope, which is SQL with its arguments as $name, a function; takes the rope over. With
// `delegates` the arguments are ?1 to ?n; any number of them without a closing parenthesis.
// Returns SQLite's code, or SQLITE_CONSTRAINT if there is a function of this name already.
int scalar_add(struct sql_engine *engine, const struct sql_definition *definition,
               struct sql_rope *sql, struct scalar **ret);
// Prepares the function's SQL. 0 or a negative errno.
int scalar_prepare(struct sql_engine *engine, struct scalar *scalar);
// From now on, keeps the results of a function. False: no function of this name takes one number.
bool scalar_memoize(struct sql_engine *engine, const char *name);
void scalars_free(struct sql_engine *engine);

// legacy.c: the functions CREATE_FUNCTION, CREATE_VIEW_FUNCTION, EXPERIMENTAL_MEMOIZE and IMPORT.
int legacy_register(struct sql_engine *engine);
// Runs a statement that calls one of these functions and does nothing else. Returns 1, or 0 for any
// other statement.
int legacy_statement(struct sql_engine *engine, const char *sql, size_t size);

// library_tables.c: __intrinsic_stdlib_modules and its companions.
int library_tables_register(struct sql_engine *engine);

// prelude.c: runs the prelude of a library that was given, before the first statement.
int prelude_run(struct sql_engine *engine);

// Called after SQLite refused `sql`: makes the internal tables that it names, if that was the
// error. 1: `sql` is worth another try; 0: the error is another one; or a negative errno.
int prelude_supply(struct sql_engine *engine, const char *sql);

// Returns 0 instead of an error if all that a definition of the prelude lacks is an internal table;
// `r` otherwise.
int prelude_forgive(struct sql_engine *engine, const struct sql_definition *definition, int r);

// Whether all that the last error says is that an internal table or function is missing.
bool prelude_lacks(const struct sql_engine *engine);

// Returns the internal table for whose lack the table of SQLite's message was left out, or NULL.
const char *prelude_missing(const struct sql_engine *engine, const char *message);
void left_out_free(struct sql_engine *engine);

// Whether the prelude defines what the database or mmsql has itself.
bool prelude_has(struct sql_engine *engine, const struct sql_definition *definition);

// row_numbers.c: replaces the column _auto_id, the row's number from 0, by an expression that
// SQLite has. 0 or -ENOMEM.
int row_numbers_replace(struct sql_rope *rope);

// newer_sql.c: replaces SQL that only newer versions of SQLite have. `version` is SQLite's version
// as a number (3.44.0 is 3044000). 0 or -ENOMEM.
int newer_sql_replace(struct sql_rope *rope, int version);

// table_calls.c: writes the rope anew with tables instead of calls of tables, if SQLite's message
// says that a table cannot be called. Returns 1 after that, 0 if the message says something else,
// or -1 if memory ran out.
int table_calls_replace(const struct sql_rope *rope, const char *message, struct sql_rope *ret);

// hash_grouping.c: prepares a SELECT with GROUP BY anew if a hash table groups its rows faster.
// *statement is the plain statement. False: *statement stays and is not replaced.
bool hash_grouping_prepare(struct sqlite3 *handle, const struct sql_rope *rope,
                           struct sqlite3_stmt **statement);
