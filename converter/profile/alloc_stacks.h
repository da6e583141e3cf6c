// SPDX-License-Identifier: Apache-2.0
//
// Reads the stacks of allocation logs (tiallocsample) from a database into a flame graph.
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "converter/profile/flame.h"

// A stack has the thread, the methods (outermost first) and the type.
struct alloc_stacks {
    bool use_size;        // weights are bytes of the sampled objects, not samples
    bool ignore_type;     // leave out the type
    bool type_only;       // the type alone
    bool thread_only;     // the thread alone
    bool reverse;         // innermost first
    uint32_t depth_limit; // number of methods; the innermost count
};

// Adds all sampled stacks. Returns SQLite's code; the handle has the message.
int alloc_stacks_read(sqlite3 *handle, const struct alloc_stacks *options, struct flame *flame);
