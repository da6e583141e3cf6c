// SPDX-License-Identifier: Apache-2.0
//
// Files about memory that are not traces. A format is a const struct file_format and a row in
// formats.c.
//
// A bad line is not an error: bad lines are counted and left out, and the first bad line is
// reported. Small files that people write are an exception: the whole file is loaded, or nothing. A
// file without a good line is an error, except for files of /proc.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "converter/ground/lines.h"
#include "converter/tables/schema.h"

struct bulk;
struct sqlite3;

struct file_import {
    struct sqlite3 *handle; // borrowed; in a transaction, unless there is a bulk
    struct bulk *bulk;      // borrowed: gets the rows; NULL: the handle gets the rows
    const char *path;       // borrowed
    const char *argument;   // borrowed: the argument given with the file (a target), or NULL
    bool (*goes_on)(void *userdata); // NULL: always
    void *userdata;
    uint64_t n_bad;      // number of left-out lines
    uint64_t first_bad;  // line number of the first left-out line, from 1
    char first_why[160]; // the reason for leaving out the first line
};

#define FILE_TABLES_MAX 8

struct proc_import;

struct proc_lines {
    enum table_id table;
    size_t snapshot_column; // proc_snapshot_id
    // Writes the rows of a line. Returns NULL or an error text.
    const char *(*take)(struct proc_import *import, struct span line);
};

struct file_format {
    const char *name;   // "perf map"
    const char *option; // the format's name in options: "perf-map"
    // Returns true if the bytes look like the format. `path` decides if the bytes are ambiguous.
    bool (*recognise)(const char *path, const uint8_t *bytes, size_t size);
    // The first words of the first line, instead of `recognise`.
    const char *first_words;
    // Returns 0 or a negative errno, with a text that begins with the file's path.
    int (*import)(struct file_import *in, const uint8_t *bytes, size_t size, struct err *err);
    // For a file of /proc, instead of `import`. See proc_snapshot.h.
    struct proc_lines lines;
    // Tables that are filled in bulk: all tables of the format, or none.
    enum table_id tables[FILE_TABLES_MAX];
    size_t n_tables;
    bool of_moment; // the same bytes in another archive are another snapshot
};

extern const struct file_format *const file_formats[]; // NULL at the end

const struct file_format *file_format_of_option(const char *option);
const struct file_format *file_format_recognise(const char *path, const uint8_t *bytes,
                                                size_t size);

// Returns true if the bytes look like the format.
bool file_format_fits(const struct file_format *format, const char *path, const uint8_t *bytes,
                      size_t size);
// Imports the file with the format's `import` or `lines`. Returns 0 or a negative errno with text.
int file_format_import(const struct file_format *format, struct file_import *in,
                       const uint8_t *bytes, size_t size, struct err *err);

// Counts a line that is left out; keeps the number of and the reason for the first left-out line.
__attribute__((format(printf, 3, 4))) void file_bad(struct file_import *in, uint64_t line,
                                                    const char *format, ...);

// Returns false if the conversion must end.
static inline bool file_goes_on(const struct file_import *in)
{
    return !in->goes_on || in->goes_on(in->userdata);
}
