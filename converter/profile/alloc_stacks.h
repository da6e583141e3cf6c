// SPDX-License-Identifier: Apache-2.0
//
// The stacks of allocation logs (tiallocsample) in a database, as stacks of a flame graph.
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "converter/profile/flame.h"

// A stack is thread, methods from the outermost in, type.
struct alloc_stacks {
    bool use_size;        // weights are bytes of the sampled objects, not samples
    bool ignore_type;     // without the type
    bool type_only;       // the type alone
    bool thread_only;     // the thread alone
    bool reverse;         // from the innermost out
    uint32_t depth_limit; // methods, the innermost
};

// Adds all stacks that were sampled. An SQLite result code; the message is the handle's.
int alloc_stacks_read(sqlite3 *handle, const struct alloc_stacks *options, struct flame *flame);
