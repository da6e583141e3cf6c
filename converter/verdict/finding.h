// SPDX-License-Identifier: Apache-2.0
//
// A sentence of a verdict.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/vec.h"

// Findings of one severity are in the order of these kinds.
enum verdict_kind {
    VERDICT_KILL,     // a process was killed because memory ran out
    VERDICT_LOSS,     // data that the trace lacks
    VERDICT_PRESSURE, // the times in which memory was short
    VERDICT_STALL,    // the process that waited for memory
    VERDICT_GROWTH,   // the process that grew
    VERDICT_RETURN,   // evicted memory that came back
    VERDICT_QUIET,    // the trace shows no memory pressure
};

enum verdict_severity { VERDICT_CRITICAL, VERDICT_WARNING, VERDICT_NOTICE, VERDICT_INFO };

struct finding {
    enum verdict_kind kind;
    enum verdict_severity severity;
    int64_t trace_id;
    bool has_time;
    int64_t ts, dur;   // place in the trace (ns), if has_time
    char *text;        // owned; one sentence or more, without newline
    const char *query; // SQL that shows the source of the text
};
VEC_DEFINE(finding_vec, struct finding);
