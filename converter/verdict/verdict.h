// SPDX-License-Identifier: Apache-2.0
//
// The verdict on a trace: at most five sentences from the tables of a converted database. They name
// the killed process, the losses of the trace, the time in which memory was short, the process that
// waited most, the process that grew most, and the evicted memory that came back. The table
// `verdict` holds the same for SQL. All rules are in this folder: every verdict that the programs
// show has these sentences.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/vec.h"

struct sqlite3;

#define VERDICT_LINES_MAX 5 // of each trace

// The order is that of the sentences within one severity.
enum verdict_kind {
    VERDICT_KILL,     // a process was killed for want of memory
    VERDICT_LOSS,     // the trace lacks something
    VERDICT_PRESSURE, // when memory was short
    VERDICT_STALL,    // who waited for memory
    VERDICT_GROWTH,   // who grew
    VERDICT_RETURN,   // what was evicted and came back
    VERDICT_QUIET,    // nothing of that, as far as the trace can tell
};

enum verdict_severity { VERDICT_CRITICAL, VERDICT_WARNING, VERDICT_NOTICE, VERDICT_INFO };

struct finding {
    enum verdict_kind kind;
    enum verdict_severity severity;
    int64_t trace_id;
    bool has_time;
    int64_t ts, dur;   // where in the trace (ns), if it has a time
    char *text;        // owned; one sentence or more, without newline
    const char *query; // SQL that shows what it is made from
};
VEC_DEFINE(finding_vec, struct finding);

// A trace of the database, with its findings, the most important first.
struct verdict {
    int64_t trace_id;
    char *path; // owned; of the trace
    struct finding_vec findings;
};
VEC_DEFINE(verdict_vec, struct verdict);

// Reads the database and appends a verdict for each trace of it whose number is `from` or more. 0
// or a negative errno.
int verdict_make(struct sqlite3 *handle, int64_t from, struct verdict_vec *ret, struct err *err);

// Adds the verdicts to the table `verdict`.
int verdict_store(struct sqlite3 *handle, const struct verdict_vec *verdicts, struct err *err);

const char *verdict_kind_name(enum verdict_kind kind);
const char *verdict_severity_name(enum verdict_severity severity);

void verdicts_done(struct verdict_vec *verdicts); // fit for CLEANUP()
