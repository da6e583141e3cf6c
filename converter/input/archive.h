// SPDX-License-Identifier: Apache-2.0
//
// Zip archives: bugreports, and whatever people pack their traces into.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/vec.h"
#include "converter/input/input.h"

struct archive_file {
    char *name;          // owned, in the archive
    struct input *input; // owned
};
VEC_DEFINE(archive_files, struct archive_file);

#define LEFT_OUT_TEXTS 16

// Entries that could not be read.
struct archive_left_out {
    char *texts[LEFT_OUT_TEXTS]; // owned: of the first ones, "report.zip!entry: why"
    size_t n;                    // of all
    bool damaged;                // and not only in a form that is not supported
    bool is_cut;                 // a limit was reached
};

bool archive_recognise(const struct input *input);

// Inflates what is of use here: traces, and other files that `wanted` takes for its name and the
// first bytes. In a bugreport only the folder of its traces, FS/proc, index.txt and kernel.log are
// looked at. `path` is for people. `needs` as for input_open(). -ENOENT: nothing of use in it.
// Entries that cannot be read, or with which the whole inflates beyond all measure, are passed
// over, and *left_out names them. If nothing else is of use, that is the error. The caller passes
// `files` and `left_out` empty, and frees both in any case.
int archive_read(struct input *input, const char *path, const struct input_needs *needs,
                 bool (*wanted)(const char *name, const uint8_t *head, size_t size),
                 struct err *err, struct archive_files *files, struct archive_left_out *left_out);

void archive_left_out_free(struct archive_left_out *left_out); // fit for CLEANUP()
void archive_files_free(struct archive_files *files);          // fit for CLEANUP()
