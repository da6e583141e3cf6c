// SPDX-License-Identifier: Apache-2.0
//
// Several result sets, one behind the other, so that a program can tell where one ends: a blank
// line between tables, CSV and JSON lines; one array of arrays for JSON.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "converter/cli/result.h"

// All zero but `form` is the start.
struct result_sets {
    const struct result_form *form; // borrowed
    size_t n;                       // printed, or held back
    FILE *held;                     // owned; the first set, as long as it may be the only one
    bool nested;                    // the outer array is open
    bool failed;                    // the first set could not be held back; errno says why
};

// Prints what the statement returns. `more`: other statements follow. Returns SQLite's code, as
// result_print().
int result_sets_print(struct result_sets *sets, struct sqlite3_stmt *statement, bool more);

// Prints what is still held back, and closes what is open, also after a failure. A JSON set that
// follows is the first of others; sets of other forms stay apart.
void result_sets_finish(struct result_sets *sets);
