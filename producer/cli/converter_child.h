// SPDX-License-Identifier: Apache-2.0
//
// Runs mmsql as a child. The converter has the code that reads traces; mmtrace does not.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/nsec.h"
#include "common/str.h"

struct converter_request {
    const char *const *argv; // "mmsql" first, NULL last
    int fd;                  // the child's standard input: a regular file, from its beginning
    nsec_t timeout;          // for the child; ending the child takes a little longer
    nsec_t queued_max;       // further time for a child that had to wait for a processor
    size_t output_max;       // bytes; further output is dropped
    int cancel_fd;           // ends the child when readable; -1: none
    bool stands_back;        // the child gets the lowest priority
};

// Returns whether there is an mmsql that may be run.
bool converter_is_there(void);

// Runs mmsql, and appends its output to `out`, and its messages to `errors`. Blocks until the child
// ends. Returns 0; -EIO if mmsql failed; -ETIMEDOUT if the child took too long; -ECANCELED if
// cancel_fd became readable; -ENOENT if there is no mmsql that may be run, or another negative
// errno, both with text.
int converter_run(const struct converter_request *request, struct strbuf *out,
                  struct strbuf *errors, struct err *err);
