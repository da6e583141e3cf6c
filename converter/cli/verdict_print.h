// SPDX-License-Identifier: Apache-2.0
//
// Verdicts, and what is wrong with traces, for people.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "converter/verdict/health.h"
#include "converter/verdict/verdict.h"

enum {
    VERDICT_WITHOUT_LOSS = 1,  // health_print() says in full what the trace lacks
    VERDICT_WITHOUT_EMPTY = 2, // nothing of a trace that has nothing about memory pressure
};

// One line for each sentence. If there are several traces, a line names each of them.
void verdicts_print(FILE *to, const struct verdict_vec *verdicts, const char *indent, int without);

// `mmsql: FILE: what (what to do)` to standard error, at most HEALTH_LINES_MAX a trace.
// `damage_told`: what is cut or damaged was reported when the file was read.
void health_print(const struct verdict_vec *verdicts, const struct health_line_vec *lines,
                  bool damage_told);

// Reads what is wrong with the traces of a database and prints it. A database that has no such
// tables has nothing to tell.
void health_read_print(struct sqlite3 *handle, bool damage_told);
