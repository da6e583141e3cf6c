// SPDX-License-Identifier: Apache-2.0
//
// A line of ftrace text, as tracefs, trace-cmd and atrace write it:
//
//     TASK-TID (TGID) [CPU] FLAGS SECONDS: EVENT: ARGS
//
// The process (TGID) and the flags may be missing.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/ground/lines.h"

struct ftrace_line {
    struct span task; // may be empty
    uint32_t tid, cpu;
    uint32_t tgid;
    bool has_tgid;
    int64_t ts; // ns
    struct span event, args;
};

// Returns false if the line is not an event.
bool ftrace_line_read(struct span line, struct ftrace_line *ret);

// Reads SECONDS.FRACTION at the start of `text`, and moves *text past it. *ret is in ns. Returns
// false if there is no such number.
bool seconds_take(struct span *text, int64_t *ret);

// Returns true if the bytes begin as ftrace text, or as the output of atrace.
bool ftrace_text_recognise(const uint8_t *bytes, size_t size);

// Returns true if a web page has data of systrace. All of the page is searched.
bool systrace_page_recognise(const uint8_t *bytes, size_t size);
