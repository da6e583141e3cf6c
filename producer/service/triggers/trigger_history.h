// SPDX-License-Identifier: Apache-2.0
//
// When which trigger was heard in the last 24 hours, for max_per_24_h. Outlives the process in a
// small file.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "common/str.h"
#include "common/vec.h"

struct trigger_time {
    nsec_t time;   // boot time; before the last boot it is negative
    uint64_t name; // hash
};

VEC_DEFINE(trigger_time_vec, struct trigger_time);

// All zero is an empty history.
struct trigger_history {
    struct trigger_time_vec times;
};

// The present, by the clock that measures and by the one that outlives a boot.
struct trigger_now {
    nsec_t boot, real;
};

#define TRIGGER_HISTORY_MAX 4096 // times; beyond them the oldest are forgotten

// How often a trigger of this name was heard in the 24 hours before now. Forgets what is older.
size_t trigger_history_count(struct trigger_history *history, const char *name,
                             struct trigger_now now);
int trigger_history_add(struct trigger_history *history, const char *name, struct trigger_now now);
void trigger_history_done(struct trigger_history *history);

// Reads what trigger_history_write() wrote into an empty history. A file that is not there is an
// empty one; whatever else it holds is skipped.
int trigger_history_load(struct trigger_history *history, const char *dir, struct trigger_now now,
                         struct err *err);
int trigger_history_parse(struct trigger_history *history, const char *text, size_t size,
                          struct trigger_now now);

// What the file is to hold. Replaces what was in *ret.
int trigger_history_text(const struct trigger_history *history, struct trigger_now now,
                         struct strbuf *ret);
// Replaces the file in `dir` as a whole. The text is on the disk before it has the file's name; so
// this may wait for a disk.
int trigger_history_write(const char *dir, const struct strbuf *text);
