// SPDX-License-Identifier: Apache-2.0
//
// The times of each trigger in the last 24 hours, for max_per_24_h. A small file keeps the times
// across restarts.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "common/str.h"
#include "common/vec.h"

struct trigger_time {
    nsec_t time;   // boot time; negative before the last boot
    uint64_t name; // hash
};

VEC_DEFINE(trigger_time_vec, struct trigger_time);

// All zero is an empty history.
struct trigger_history {
    struct trigger_time_vec times;
};

// The present time, by the clock that measures and by the clock that survives a reboot.
struct trigger_now {
    nsec_t boot, real;
};

#define TRIGGER_HISTORY_MAX 4096 // times; at the limit, the oldest time is dropped

// Returns the number of triggers of this name in the last 24 hours. Drops older times.
size_t trigger_history_count(struct trigger_history *history, const char *name,
                             struct trigger_now now);
int trigger_history_add(struct trigger_history *history, const char *name, struct trigger_now now);
void trigger_history_done(struct trigger_history *history);

// Reads the file of trigger_history_write() into an empty history. A missing file counts as an
// empty history. Unknown content is skipped. Returns 0 or a negative errno with text.
int trigger_history_load(struct trigger_history *history, const char *dir, struct trigger_now now,
                         struct err *err);
int trigger_history_parse(struct trigger_history *history, const char *text, size_t size,
                          struct trigger_now now);

// Makes the text of the file. Replaces the content of *ret.
int trigger_history_text(const struct trigger_history *history, struct trigger_now now,
                         struct strbuf *ret);
// Replaces the file in `dir` as a whole. Waits for the disk, because the text is on the disk before
// the file gets its name. Returns 0 or a negative errno.
int trigger_history_write(const char *dir, const struct strbuf *text);
