// SPDX-License-Identifier: Apache-2.0
//
// What verbs that ask share: a database, or a trace that is converted for the occasion.
#pragma once

#include <stdbool.h>

#include "converter/cli/verb_options.h"

struct sqlite3;

// Whether question_open() would open `path` as a database, not convert it. Nothing is consumed.
bool question_is_database(const char *path);

// Enters the sandbox of a verb that reads `path` and writes `output` (NULL or "-": standard
// output). False: the program must not go on; the reason is on stderr.
bool question_sandbox(const char *path, const char *output);

// Opens `path` for reading, the trace in a database without a name. Returns SQLite's code; what is
// wrong is on stderr. The caller closes *ret, also on failure. *ret_is_cut: a part of the trace is
// missing because a limit was reached; the verb does what it can, and ends with EXIT_FAILED.
int question_open(const char *path, const struct limits *limits, struct sqlite3 **ret,
                  bool *ret_is_cut);

// For CLEANUP().
void question_closep(struct sqlite3 **handle);
