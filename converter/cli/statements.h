// SPDX-License-Identifier: Apache-2.0
//
// SQL of a user: several statements, in PerfettoSQL.
#pragma once

#include <stdbool.h>

#include "converter/cli/result_sets.h"

struct sql_engine;

// Runs the statements of `sql`, prints their rows, and finishes `sets`. Returns an exit code; an
// error is printed to stderr. `name` is for errors: the file that the SQL is from, or "". With
// `timing`, prints the duration of each statement: to stderr, or after the rows if `sets->form` has
// begin().
int statements_run(struct sql_engine *engine, const char *name, const char *sql,
                   struct result_sets *sets, bool timing);

// Prints the functions beside SQLite's own. Returns EXIT_DONE.
int functions_print(void);
