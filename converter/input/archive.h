// SPDX-License-Identifier: Apache-2.0
//
// Zip archives: bugreports and other archives of traces.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/vec.h"
#include "converter/input/input.h"

struct archive_file {
    char *name;          // owned; name in the archive
    struct input *input; // owned
};
VEC_DEFINE(archive_files, struct archive_file);

#define LEFT_OUT_TEXTS 16

// Entries that could not be read.
struct archive_left_out {
    char *texts[LEFT_OUT_TEXTS]; // owned; of the first entries, "report.zip!entry: why"
    size_t n;                    // number of all entries
    bool damaged;                // an entry is damaged, not only unsupported
    bool is_cut;                 // a limit was reached
};

bool archive_recognise(const struct input *input);

// Inflates the useful entries: traces, and other files that `wanted` accepts by name and first
// bytes. In a bugreport, only the folder of its traces, FS/proc, index.txt and kernel.log are read.
// `path` is for people. `needs`: as for input_open(). Entries that cannot be read, or inflate to
// far too much, are left out and named in *left_out. Returns 0 or a negative errno with text:
// -ENOENT if no entry is useful; the error of a left-out entry if no other entry is useful. The
// caller passes `files` and `left_out` empty, and frees both in any case.
int archive_read(struct input *input, const char *path, const struct input_needs *needs,
                 bool (*wanted)(const char *name, const uint8_t *head, size_t size),
                 struct err *err, struct archive_files *files, struct archive_left_out *left_out);

void archive_left_out_free(struct archive_left_out *left_out); // fit for CLEANUP()
void archive_files_free(struct archive_files *files);          // fit for CLEANUP()
