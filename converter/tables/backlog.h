// SPDX-License-Identifier: Apache-2.0
//
// Rows that arrive before rows with smaller ids. The rows wait in unnamed files, and an index finds
// a row by its id.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "converter/ground/scratch.h"
#include "converter/tables/record_format.h"

// All zero is empty.
struct backlog {
    struct scratch log;   // records, each after its size
    struct scratch index; // by id: offset in the log + 1, or 0
    size_t n_log;         // bytes
    size_t n_used;        // bytes of records, put or taken, since memory was last released
    uint64_t n;           // rows
    int64_t last;         // largest id
};

// Adds a row. Returns 0 or a negative errno; -EEXIST if the backlog has a row with this id.
int backlog_put(struct backlog *backlog, const char *folder, int64_t id,
                const struct record *record);

// Takes the row with this id. Returns false if the backlog lacks the row. The record is valid until
// the next backlog_put().
bool backlog_take(struct backlog *backlog, int64_t id, struct record *ret);
void backlog_done(struct backlog *backlog);
