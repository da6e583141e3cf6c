// SPDX-License-Identifier: Apache-2.0
//
// SQL as people give it: several statements, some of them in Perfetto's dialect.
#pragma once

#include <stdbool.h>

#include "converter/cli/result_sets.h"

struct sqlite3;

// Runs what `sql` says, prints what it returns, and finishes `sets`. Returns an exit code; the
// error is on stderr.
// `timing`: how long each statement took, to stderr; behind the rows where the form has begin().
int statements_run(struct sqlite3 *handle, const char *sql, struct result_sets *sets, bool timing);

// Prints the functions beside SQLite's own. EXIT_DONE.
int functions_print(void);
