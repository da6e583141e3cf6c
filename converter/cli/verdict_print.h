// SPDX-License-Identifier: Apache-2.0
//
// Output of verdicts and of the health of traces, for people.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "converter/verdict/health.h"
#include "converter/verdict/verdict.h"

enum {
    VERDICT_WITHOUT_LOSS = 1,  // leave out losses: health_print() prints them in full
    VERDICT_WITHOUT_EMPTY = 2, // leave out the sentence "no data about memory pressure"
};

// Prints one line for each sentence; on a terminal, lines that fit. With several traces, a line
// with the path precedes the sentences of each trace.
void verdicts_print(FILE *to, const struct verdict_vec *verdicts, const char *indent, int without);

// Prints `mmsql: FILE: problem (hint)` to standard error, at most HEALTH_LINES_MAX problems of a
// trace. `damage_told`: leave out cut and damaged data, which were reported when the file was read.
void health_print(const struct verdict_vec *verdicts, const struct health_line_vec *lines,
                  bool damage_told);

// Reads the health of the traces of a database and prints it. Prints nothing if the database lacks
// the tables.
void health_read_print(struct sqlite3 *handle, bool damage_told);
