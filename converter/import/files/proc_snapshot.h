// SPDX-License-Identifier: Apache-2.0
//
// Files of /proc as they stood at one moment. Those of a bugreport, or of one folder, belong
// together: to one row of proc_snapshot.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "converter/import/files/file_format.h"
#include "converter/import/files/lines.h"
#include "converter/tables/rows.h"

#define PROC_FOLDER         "FS/proc/"         // in a bugreport
#define PROC_FILE_MAX_BYTES ((size_t)16 << 20) // more is no file of /proc
#define PROC_NAME_MAX_BYTES ((size_t)256)      // of a counter, a slab, a zone

// The last part of a path, or of a path in an archive.
const char *proc_file_name(const char *path);

// The row of the moment that `in->path` is of; it is made if there is none yet.
int proc_snapshot_get(const struct file_import *in, int64_t *ret, struct err *err);

// An import line by line into one table.
struct proc_import {
    struct file_import *in;       // borrowed
    const struct proc_lines *how; // borrowed
    struct rows rows;
    int64_t snapshot;
    uint64_t line; // number of the line at hand
    void *state;   // of the format, borrowed
};

// Hands every line that is not blank to `how->take`. A file without a row counts as one bad line,
// and so does a file whose moment has such a file already: the rest of a bugreport is worth
// loading.
int proc_lines_import(struct file_import *in, const uint8_t *bytes, size_t size,
                      const struct proc_lines *how, void *state, struct err *err);

// For `take`: sets a text of the row, or the end of the row.
void proc_text(struct proc_import *import, size_t column, struct span text);
void proc_row(struct proc_import *import);

// Whether `name` may be the name of something; false: empty, too long, or binary data.
bool proc_name_fits(struct span name);

// A number that a table can hold.
bool proc_number(struct span word, int64_t *ret);
