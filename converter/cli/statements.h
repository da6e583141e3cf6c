// SPDX-License-Identifier: Apache-2.0
//
// SQL as people give it: several statements, some of them in Perfetto's dialect.
#pragma once

#include <stdbool.h>

#include "converter/cli/result.h"

struct sqlite3;

// Runs what `sql` says and prints what it returns. Returns an exit code; the error is on stderr.
// `timing`: how long each statement took, to stderr; behind the rows where the form has begin().
int statements_run(struct sqlite3 *handle, const char *sql, const struct result_form *form,
                   bool timing);
