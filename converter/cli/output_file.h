// SPDX-License-Identifier: Apache-2.0
//
// A file that a verb writes. The file gets its name when its content is complete, so that the old
// file stays after a failure. A file that is not regular (a pipe, a device) is written directly.
#pragma once

#include <stdio.h>

#include "common/err.h"
#include "converter/cli/working_file.h"

struct output_file {
    const char *path; // borrowed; NULL: standard output
    int fd;           // for writing; owned unless it is standard output
    struct working_folder folder;
    char *working; // owned; NULL: the file is written directly
    struct output_place place;
};

#define OUTPUT_FILE_INIT                                                                           \
    ((struct output_file){.fd = -1, .folder = {.fd = -1}, .place = {.end = PATH_END_INIT}})

// Opens the output. `path` NULL or "-" is standard output. Returns 0 or a negative errno with text.
int output_file_open(struct output_file *file, const char *path, struct err *err);

// Writes the whole content of an output to `out`. Returns 0 or a negative errno. If `err` has no
// text, the function has printed the message already. The caller checks `out` for failures.
typedef int (*output_fill_fn)(void *userdata, FILE *out, struct err *err);

// Opens the output, has `fill` write, and gives the complete file its name. Prints the message of a
// failure. Returns EXIT_DONE or EXIT_FAILED.
int output_file_write(const char *path, output_fill_fn fill, void *userdata);

// As output_file_write(), for a name that the user has not chosen: writes only a regular file of
// this name. A link of this name is replaced. Any other file that is not regular is refused.
int output_file_write_here(const char *path, output_fill_fn fill, void *userdata);

// Gives the complete file its name. Returns 0 or a negative errno with text.
int output_file_publish(struct output_file *file, struct err *err);

// Removes a file that was not published. Fit for CLEANUP().
void output_file_done(struct output_file *file);

// Returns the name of the output for messages.
const char *output_file_name(const struct output_file *file);
