// SPDX-License-Identifier: Apache-2.0
//
// Snapshots of files of /proc. The files of a bugreport, or of a folder, belong to one row of
// proc_snapshot.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "converter/ground/lines.h"
#include "converter/import/files/file_format.h"
#include "converter/tables/rows.h"

#define PROC_FOLDER         "FS/proc/"         // in a bugreport
#define PROC_FILE_MAX_BYTES ((size_t)16 << 20) // larger files are not from /proc
#define PROC_NAME_MAX_BYTES ((size_t)256)      // of a counter, a slab, a zone

// Returns the last part of a path, or of a path in an archive.
const char *proc_file_name(const char *path);

// *ret: the id of the snapshot of `in->path`; a missing row is created. Returns 0 or a negative
// errno with text.
int proc_snapshot_get(const struct file_import *in, int64_t *ret, struct err *err);

// An import line by line into one table.
struct proc_import {
    struct file_import *in;       // borrowed
    const struct proc_lines *how; // borrowed
    struct rows rows;
    int64_t snapshot;
    uint64_t line; // number of the current line
    void *state;   // of the format, borrowed
};

// Passes every non-blank line to `how->take`. A file without a row counts as one bad line, like a
// second file of the same kind in a snapshot. Both are not errors: the rest of a bugreport is
// loaded.
int proc_lines_import(struct file_import *in, const uint8_t *bytes, size_t size,
                      const struct proc_lines *how, void *state, struct err *err);

// For `take`: proc_text() sets a text of the row, proc_row() writes the row.
void proc_text(struct proc_import *import, size_t column, struct span text);
void proc_row(struct proc_import *import);

// Returns true if `name` is a possible name: not empty, not too long, without binary data.
bool proc_name_fits(struct span name);

// Parses a number that a table can hold.
bool proc_number(struct span word, int64_t *ret);
