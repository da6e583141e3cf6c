// SPDX-License-Identifier: Apache-2.0
//
// Files that are no traces and explain memory all the same. A format is one file with one const
// struct file_format, and one row in formats.c.
//
// What is wrong with a line is no failure: it is named, counted and left out, and the rest is
// loaded; but small files that people write are taken whole or not at all. A file with nothing in
// it that the format knows is a failure.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "converter/import/files/lines.h"
#include "converter/tables/schema.h"

struct bulk;
struct sqlite3;

struct file_import {
    struct sqlite3 *handle;          // borrowed; in a transaction, unless there is a bulk
    struct bulk *bulk;               // borrowed: where the rows go; NULL: into the handle
    const char *path;                // borrowed, for people
    const char *argument;            // borrowed: what was said of the file (a target), or NULL
    bool (*goes_on)(void *userdata); // NULL: always
    void *userdata;
    uint64_t n_bad;      // lines that are left out
    uint64_t first_bad;  // number of the first one, from 1
    char first_why[160]; // what is wrong with it
};

#define FILE_TABLES_MAX 8

struct proc_import;

struct proc_lines {
    enum table_id table;
    size_t snapshot_column; // proc_snapshot_id
    // Puts the rows of a line. Returns NULL, or what is wrong with the line.
    const char *(*take)(struct proc_import *import, struct span line);
};

struct file_format {
    const char *name;   // "perf map"
    const char *option; // that names it: "perf-map"
    // Whether the bytes look like it. `path` may help, where the bytes say little.
    bool (*recognise)(const char *path, const uint8_t *bytes, size_t size);
    // In place of recognise: the words that the first line begins with.
    const char *first_words;
    // Returns 0 or a negative errno, with a text that begins with the file's path.
    int (*import)(struct file_import *in, const uint8_t *bytes, size_t size, struct err *err);
    // In place of import: what makes rows of a file of /proc. See proc_snapshot.h.
    struct proc_lines lines;
    // Tables that it fills in bulk: all that it fills, or none.
    enum table_id tables[FILE_TABLES_MAX];
    size_t n_tables;
    bool of_moment; // the same bytes in another archive are another moment
};

extern const struct file_format *const file_formats[]; // NULL at the end

const struct file_format *file_format_of_option(const char *option);
const struct file_format *file_format_recognise(const char *path, const uint8_t *bytes,
                                                size_t size);

// Whether the bytes look like the format.
bool file_format_fits(const struct file_format *format, const char *path, const uint8_t *bytes,
                      size_t size);
// Imports the file; see `import` above.
int file_format_import(const struct file_format *format, struct file_import *in,
                       const uint8_t *bytes, size_t size, struct err *err);

// Notes that a line is left out.
__attribute__((format(printf, 3, 4))) void file_bad(struct file_import *in, uint64_t line,
                                                    const char *format, ...);

// False: the conversion is to end.
static inline bool file_goes_on(const struct file_import *in)
{
    return !in->goes_on || in->goes_on(in->userdata);
}
