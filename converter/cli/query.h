// SPDX-License-Identifier: Apache-2.0
//
// Access of a verb to its data: a database, or a trace that mmsql converts into a temporary
// database.
#pragma once

#include <stdbool.h>

#include "converter/cli/trace_cache.h"
#include "converter/cli/verb_options.h"

struct err;
struct sqlite3;

// Prepares the cache for a question to the trace `path`, unless an option says otherwise. Must run
// before own_sandbox_cache(). Does nothing for a database.
void question_expect(const char *path, const struct limits *limits, struct trace_cache *cache);

// Opens the cache for a trace `path`, unless an option says otherwise, and enters the sandbox of a
// verb that reads `path` and writes `output` (NULL or "-": standard output). Returns false after an
// error, which is printed to stderr; the program must then end.
bool question_sandbox(const char *path, const char *output, const struct limits *limits,
                      struct trace_cache *cache);
// As question_sandbox(), for a verb that reads `n` files.
bool questions_sandbox(const char *const *paths, size_t n, const char *output,
                       const struct limits *limits, struct trace_cache *cache);

// Opens the database `path` for reading. A trace `path` is converted, unless the cache has its
// database. Returns SQLite's code; errors are printed to stderr. The caller closes *ret, also after
// a failure. *ret_is_cut: a part of the trace is missing because a limit was reached.
int question_open(const char *path, const struct limits *limits, const struct trace_cache *cache,
                  struct sqlite3 **ret, bool *ret_is_cut);

// Adds to an error, that a file has no trace, what to do instead.
void question_no_trace(const char *path, struct err *err);

// For CLEANUP().
void question_closep(struct sqlite3 **handle);
