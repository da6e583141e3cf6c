// SPDX-License-Identifier: Apache-2.0
//
// What the files of the engine share.
#pragma once

#include "converter/perfetto_sql/definition.h"
#include "converter/perfetto_sql/engine.h"
#include "converter/perfetto_sql/macros.h"

struct scalar;
VEC_DEFINE(scalar_vec, struct scalar *);
VEC_DEFINE(sql_text_vec, struct sql_text *);

struct sql_engine {
    struct sqlite3 *handle;        // borrowed
    struct sql_packages *packages; // borrowed
    struct sql_macros macros;
    struct sql_text_vec texts; // owned
    struct scalar_vec scalars; // owned; the functions that were created
    struct strbuf error;
    unsigned depth; // of modules that include each other
    bool in_prelude;
};

// Sets the error: `what`, and the place in `rope`. Returns `r`.
__attribute__((format(printf, 5, 6))) int engine_fail(struct sql_engine *engine, int r,
                                                      const struct sql_rope *rope, const char *at,
                                                      const char *format, ...);

// Sets SQLite's last error. `at`: a text of the rope that SQLite's offset counts from.
int engine_fail_sqlite(struct sql_engine *engine, const struct sql_rope *rope, const char *at);

// Prepares the rope's text from `begin`. 0 or a negative errno.
int engine_prepare(struct sql_engine *engine, const struct sql_rope *rope,
                   struct sqlite3_stmt **ret);

// Runs statements to their end.
int engine_step(struct sql_engine *engine, struct sqlite3_stmt *statement,
                const struct sql_rope *rope);
int engine_run_rope(struct sql_engine *engine, const struct sql_rope *rope);
__attribute__((format(printf, 2, 3))) int engine_run(struct sql_engine *engine, const char *format,
                                                     ...);

// create.c: runs what a definition says. Its parts lie in the text of `rope`.
int create_run(struct sql_engine *engine, const struct sql_rope *rope,
               const struct sql_definition *definition);

// scalar.c: functions that return one value.
//
// Makes `sql`, which has its arguments as ?1 to ?n, a function. `n` -1: any number of arguments.
// SQLite's code.
int scalar_add(struct sql_engine *engine, const char *name, int n, const char *sql);
// Has the results of a function kept. False: there is no such function.
bool scalar_memoize(struct sql_engine *engine, const char *name);
void scalars_free(struct sql_engine *engine);

// legacy.c: the functions CREATE_FUNCTION, CREATE_VIEW_FUNCTION, EXPERIMENTAL_MEMOIZE and IMPORT.
int legacy_register(struct sql_engine *engine);

// library_tables.c: __intrinsic_stdlib_modules and its companions.
int library_tables_register(struct sql_engine *engine);

// Creates a function from its parts; `body` and `delegate` are as in the definition.
int create_function(struct sql_engine *engine, const struct sql_rope *rope,
                    const struct sql_definition *definition);
