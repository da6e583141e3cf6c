// SPDX-License-Identifier: Apache-2.0
//
// A sentence of a verdict.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/vec.h"

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
