// SPDX-License-Identifier: Apache-2.0
//
// One line of a tracefs buffer's `trace_pipe`: the kernel's text of one event.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/nsec.h"
#include "common/text.h"

// All texts are parts of the line.
struct trace_line {
    struct text task; // "NAME-PID"; empty: unknown
    struct text name; // of the task, without the blanks before it
    int32_t pid;      // 0: unknown
    nsec_t time;
    struct text event;
    struct text arguments; // " order=0 nr_reclaimed=3"
};

// Parses the line [line, end). Returns false if the line has no event with a time from `earliest`
// to `latest`, for example "CPU:0 [LOST 12 EVENTS]".
bool trace_line_parse(const char *line, const char *end, nsec_t earliest, nsec_t latest,
                      struct trace_line *ret);
