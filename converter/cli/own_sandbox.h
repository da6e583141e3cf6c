// SPDX-License-Identifier: Apache-2.0
//
// The sandbox that a verb enters after it has read the command line and before it opens a file.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/sandbox.h"
#include "converter/cli/trace_cache.h"

VEC_DEFINE(made_vec, char *); // owned

// The paths that the sandbox allows. All zero is empty; the functions below add paths.
struct own_sandbox {
    struct sandbox_paths paths;
    struct made_vec made;
    bool reads_all;     // any file may be read
    bool writes_all;    // files are not guarded
    bool runs_programs; // for example a pager
    bool bounds_data;   // limit data to half of the available memory
    bool failed;        // memory ran out
};

// Allows reading of a file and of the files that belong to it: journals of a database, times of a
// perf map. For a database in WAL mode, allows writing beside it, too. Ignores "-" and NULL.
void own_sandbox_input(struct own_sandbox *sandbox, const char *path);

// Allows writing of a file, in its folder, and in the folder of a link's target. Ignores "-" and
// NULL.
void own_sandbox_output(struct own_sandbox *sandbox, const char *path);

// Allows reading of the cache, starts its keeper, and allows writing in the keeper's place.
void own_sandbox_cache(struct own_sandbox *sandbox, struct trace_cache *cache);

// Enters the sandbox, unless the environment has MMTRACE_SANDBOX=off. Parts that the kernel lacks
// are left out; temporary files can be written. Empties `sandbox`. Returns false after another
// failure, which is printed to stderr; the program must then end.
bool own_sandbox_enter(struct own_sandbox *sandbox);
