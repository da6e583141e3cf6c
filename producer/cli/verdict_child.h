// SPDX-License-Identifier: Apache-2.0
//
// The verdict on a trace, in at most five lines, by `mmsql verdict`.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "common/str.h"

// Larger traces get no verdict: reading them would take too long.
#define VERDICT_TRACE_MAX ((uint64_t)64 << 20)

struct verdict_request {
    int fd;             // the trace: a regular file, open for reading; borrowed
    nsec_t timeout;     // for the child; ending the child takes a little longer
    nsec_t queued_max;  // further time for a child that had to wait for a processor
    uint64_t max_bytes; // of the trace; 0: VERDICT_TRACE_MAX
    int cancel_fd;      // ends the child when readable; -1: none
    bool stands_back;   // the child gets the lowest priority
};

// Returns whether there is an mmsql for the verdict.
bool verdict_is_possible(void);

// Runs `mmsql verdict` and appends its lines, each with a newline, fit for printing. A trace
// without memory pressure gives no lines. Blocks until the child ends. Returns 0 or a negative
// errno with text:
//   -ENOENT     there is no mmsql, or none that root may run
//   -ENODATA    the file is empty
//   -EFBIG      the trace is larger than max_bytes
//   -ETIMEDOUT  the child took too long
//   -ECANCELED  cancel_fd became readable
//   others      mmsql could not read the trace, or could not be run
int verdict_of_fd(const struct verdict_request *request, struct strbuf *ret, struct err *err);

// Prints the verdict on the file to standard error at the end of a command, each line indented. For
// a trace that would delay the prompt, prints a line that names `mmsql verdict` instead. Without
// mmsql, or when `cancel_fd` (-1: none) becomes readable, prints nothing.
void verdict_print(const char *path, int cancel_fd);

// Prints the command that shows the trace to standard error, for a person at a terminal.
void verdict_print_next(const char *path);
