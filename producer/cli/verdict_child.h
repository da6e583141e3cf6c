// SPDX-License-Identifier: Apache-2.0
//
// The verdict on a trace, in at most five lines: the output of `mmsql verdict`.
#pragma once

#include "common/err.h"
#include "common/nsec.h"
#include "common/str.h"

// No trace above this size is judged: reading it would take too long.
#define VERDICT_TRACE_MAX ((uint64_t)64 << 20)

struct verdict_request {
    int fd;             // of the trace: a regular file that is open for reading; borrowed
    nsec_t timeout;     // at most so long, plus what it takes to end the child
    uint64_t max_bytes; // of the trace; 0: VERDICT_TRACE_MAX
    int cancel_fd;      // ends the child when it can be read; -1: none
    bool stands_back;   // the child gets the lowest priority: nobody waits for it
};

// Runs `mmsql verdict` and appends its lines, each with a newline, fit to be printed. A trace that
// has nothing about memory pressure gives no lines. Blocks until the child has ended. 0, or a
// negative errno with text:
//   -ENOENT     there is no mmsql, or none that root may run
//   -ENODATA    the file is empty
//   -EFBIG      the trace is larger than that
//   -ETIMEDOUT  it took too long
//   -ECANCELED  cancel_fd
//   others      mmsql could not read the trace, or could not be run
int verdict_of_fd(const struct verdict_request *request, struct strbuf *ret, struct err *err);

// The same for a file by its name.
int verdict_of_file(const char *path, nsec_t timeout, struct strbuf *ret, struct err *err);

// For the end of a command: prints the verdict of the file to standard error, each line indented.
// A trace that would keep the prompt waiting gets a line that names `mmsql verdict` instead; where
// there is no mmsql nothing is printed.
void verdict_print(const char *path);
