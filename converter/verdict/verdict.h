// SPDX-License-Identifier: Apache-2.0
//
// The verdict on a trace: at most five sentences from the tables of a converted database. The
// sentences name the killed process, the losses of the trace, the time in which memory was short,
// the process that waited most, the process that grew most, and the evicted memory that came back.
// The table `verdict` holds the sentences for SQL. All rules are in this folder: every verdict of
// the programs has these sentences.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/vec.h"
#include "converter/verdict/finding.h"

struct sqlite3;

#define VERDICT_LINES_MAX 5 // of each trace

// The verdict on a trace of the database. The most important findings come first.
struct verdict {
    int64_t trace_id;
    char *path; // owned; path of the trace
    struct finding_vec findings;
};
VEC_DEFINE(verdict_vec, struct verdict);

// Appends a verdict for each trace of the database with an id of at least `from`. Returns 0 or a
// negative errno with text.
int verdict_make(struct sqlite3 *handle, int64_t from, struct verdict_vec *ret, struct err *err);

// Adds the verdicts to the table `verdict`. Returns 0 or a negative errno with text.
int verdict_store(struct sqlite3 *handle, const struct verdict_vec *verdicts, struct err *err);

// Each function returns a name in the table `verdict`, such as "pressure" or "critical".
const char *verdict_kind_name(enum verdict_kind kind);
const char *verdict_severity_name(enum verdict_severity severity);

void verdicts_done(struct verdict_vec *verdicts); // fit for CLEANUP()
