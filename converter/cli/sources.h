// SPDX-License-Identifier: Apache-2.0
//
// What a database is made from, so that nothing is loaded twice: the table input_file, and the
// files of the conversion under way.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/vec.h"
#include "converter/import/files/file_format.h"

struct sqlite3;

struct source {
    char *path;     // owned, for people
    char *format;   // owned: "trace", "archive", or the name of a file format
    char *argument; // owned: what was said of the file, or NULL
    uint64_t size_bytes, hash;
    int64_t trace_id; // -1: it is no trace
};
VEC_DEFINE(source_vec, struct source);

// All zero is empty.
struct sources {
    struct source_vec all;
    size_t n_stored; // the first of them, which the database has
};

#define SOURCE_TRACE   "trace"
#define SOURCE_ARCHIVE "archive"

// Reads what the database `handle` was made from.
int sources_load(struct sources *sources, struct sqlite3 *handle, struct err *err);

// The source that `content` repeats, or NULL. `format` is NULL for traces and archives. Traces and
// archives are the same if their bytes are; other files must have the same name and argument, too,
// because these tell what the bytes are about.
const struct source *sources_find(const struct sources *sources, const struct source *content,
                                  const struct file_format *format);

// Takes a copy. 0 or -ENOMEM.
int sources_add(struct sources *sources, const struct source *source);

// Adds the sources that are new to the table.
int sources_write(struct sources *sources, struct sqlite3 *handle, struct err *err);
void sources_done(struct sources *sources); // fit for CLEANUP()

// Judges the only trace of the database file `part` beside those of `handle`, which is in no
// transaction. *ret_same: one of them is the same recording (the same trace_uuid at the same time);
// *ret_text (NULL: nothing to say; freed by the caller) says of which, or which trace is a snapshot
// of the same session and has a part of the same time.
int trace_compare(struct sqlite3 *handle, const char *part, bool *ret_same, char **ret_text,
                  struct err *err);
