// SPDX-License-Identifier: Apache-2.0
//
// The sandbox that a verb enters when its command line is read and before any file is.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/sandbox.h"

VEC_DEFINE(made_vec, char *); // owned

// Grows by the functions below; all zero is empty.
struct own_sandbox {
    struct sandbox_paths paths;
    struct made_vec made;
    bool reads_all;     // any file may be read
    bool writes_all;    // no files are guarded
    bool runs_programs; // a pager
    bool bounds_data;   // to half of what memory is available
    bool failed;        // no memory
};

// A file to be read, and those that belong to it: journals of a database, times of a perf map. A
// database in WAL mode is written beside, too. "-" and NULL are none.
void own_sandbox_input(struct own_sandbox *sandbox, const char *path);

// A file to be written, with the folder that it is in and that of the file which a link leads to.
void own_sandbox_output(struct own_sandbox *sandbox, const char *path);

// Enters it, unless the environment says MMTRACE_SANDBOX=off. What the kernel does not have is left
// out; temporary files can be written. Empties `sandbox`. False: it failed for another reason,
// which is on stderr, and the program must not go on.
bool own_sandbox_enter(struct own_sandbox *sandbox);
