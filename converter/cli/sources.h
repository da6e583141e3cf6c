// SPDX-License-Identifier: Apache-2.0
//
// The files that a database was made from: the table input_file, and the files of the running
// conversion. The conversion recognises repeated files by this list.
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
    char *argument; // owned: conversion_file.argument, or NULL
    uint64_t size_bytes, hash;
    int64_t trace_id; // -1: not a trace
};
VEC_DEFINE(source_vec, struct source);

// All zero is empty.
struct sources {
    struct source_vec all;
    size_t n_stored; // the first sources, which the database has already
};

#define SOURCE_TRACE   "trace"
#define SOURCE_ARCHIVE "archive"

// Reads the sources of the database `handle`. Returns 0 or a negative errno with text.
int sources_load(struct sources *sources, struct sqlite3 *handle, struct err *err);

// Returns the source that `content` repeats, or NULL. `format` is NULL for traces and archives.
// Traces and archives are the same if their bytes are equal. Other files must have the same name
// and argument, too, because name and argument give the subject of the bytes.
const struct source *sources_find(const struct sources *sources, const struct source *content,
                                  const struct file_format *format);

// Adds a copy of `source`. Returns 0 or -ENOMEM.
int sources_add(struct sources *sources, const struct source *source);

// Adds the new sources to the table. Returns 0 or a negative errno with text.
int sources_write(struct sources *sources, struct sqlite3 *handle, struct err *err);
void sources_done(struct sources *sources); // fit for CLEANUP()

// Compares the only trace of the database file `part` with the traces of `handle`, which must not
// be in a transaction. *ret_same: a trace of `handle` is the same recording (the same trace_uuid,
// and overlapping times). *ret_text: a message that names this trace, or an overlapping snapshot of
// the same session; NULL: no message. The caller frees *ret_text.
int trace_compare(struct sqlite3 *handle, const char *part, bool *ret_same, char **ret_text,
                  struct err *err);
