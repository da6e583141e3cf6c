// SPDX-License-Identifier: Apache-2.0
//
// What `record` tells people: one line that is rewritten while it runs, one sentence at the end.
#pragma once

#include "common/str.h"
#include "producer/service/session/session.h"

#define PROGRESS_PERIOD (250 * NSEC_PER_MSEC)

// Appends "12.3 s, 1,234,567 events, 3.4 MB, nothing lost", where `bytes` are the megabytes.
void progress_format(const struct session_counts *counts, uint64_t bytes, struct strbuf *out);

// `events` of a session that somebody else counts and does not tell; they are left out.
#define PROGRESS_EVENTS_UNKNOWN UINT64_MAX

// Rewrites the line on stderr, a terminal; progress_erase() takes it away.
void progress_show(const struct session_counts *counts);
void progress_show_text(const char *text);
void progress_erase(void);
