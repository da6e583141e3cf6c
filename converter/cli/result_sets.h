// SPDX-License-Identifier: Apache-2.0
//
// Output of several result sets. A blank line separates tables, CSV and JSON lines; JSON is one
// array of arrays. Therefore a program can find the end of each set.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "converter/cli/result.h"

// Initially all members but `form` and `single` are zero.
struct result_sets {
    const struct result_form *form; // borrowed
    size_t n;                       // result sets printed or held back
    FILE *held;                     // owned; output of the first set, while no second set follows
    bool single;                    // a second set is refused, before the first is printed
    bool nested;                    // the outer array is open
    bool failed;                    // the first set could not be held back; errno is the cause
};

// Prints the rows of the statement. `more`: other statements follow. Returns SQLite's code, as
// result_print().
int result_sets_print(struct result_sets *sets, struct sqlite3_stmt *statement, bool more);

// Prints the held set and closes the outer array, also after a failure. The next JSON set counts as
// a first set again. Sets of other forms stay separated by blank lines.
void result_sets_finish(struct result_sets *sets);
