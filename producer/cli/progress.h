// SPDX-License-Identifier: Apache-2.0
//
// Status of `record` on stderr: a line that is rewritten during the recording, and a sentence at
// the end.
#pragma once

#include "common/str.h"
#include "producer/service/session/session.h"

#define PROGRESS_PERIOD (250 * NSEC_PER_MSEC)

// Appends "12.3 s, 1,234,567 events, 3.4 MB, nothing lost". `bytes` is the printed size.
void progress_format(const struct session_counts *counts, uint64_t bytes, struct strbuf *out);

// Number of events if another process counts them and does not report them: the number is not
// printed.
#define PROGRESS_EVENTS_UNKNOWN UINT64_MAX

// Prints the sentence about the trace `name` to stderr, with `note` after it. `counts` may be
// NULL.
void progress_print_end(const char *name, const struct session_counts *counts, uint64_t bytes,
                        const char *note);

// Rewrites the line on stderr, which is a terminal. progress_erase() removes the line.
void progress_show(const struct session_counts *counts);
void progress_show_text(const char *text);
void progress_erase(void);
