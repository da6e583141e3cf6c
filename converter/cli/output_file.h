// SPDX-License-Identifier: Apache-2.0
//
// A file that a verb writes. The file gets its name when it is complete, so that a failure leaves
// the old one. A file that is not regular (a pipe, a device) is written to.
#pragma once

#include "common/err.h"
#include "converter/cli/working_file.h"

struct output_file {
    const char *path; // borrowed; NULL: standard output
    int fd;           // for writing; owned unless it is standard output
    struct working_folder folder;
    char *working; // owned; NULL: the file itself is written to
    char *target;  // owned; the path without links; NULL: as `path`
};

// `path` NULL or "-" is standard output. 0, or a negative errno with text.
int output_file_open(struct output_file *file, const char *path, struct err *err);

// All is written: the file takes its name.
int output_file_publish(struct output_file *file, struct err *err);

// What was not published goes. Fit for CLEANUP().
void output_file_done(struct output_file *file);

// For messages.
const char *output_file_name(const struct output_file *file);
