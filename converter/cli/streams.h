// SPDX-License-Identifier: Apache-2.0
//
// "-" as the name of a database. SQLite needs a named file, so a database from or to a pipe is held
// in a temporary file.
#pragma once

#include <stdbool.h>

#include "common/err.h"

// A file in a separate folder, in the system's folder for temporary files. All zero: no file.
struct stream_file {
    char *folder; // owned
    char *file;   // owned; the file may not exist yet
};

int stream_file_make(struct stream_file *stream, struct err *err);
void stream_file_done(
    struct stream_file *stream); // removes the file and the folder; fit for CLEANUP()

// Returns true if standard input has a database. Consumes nothing. Returns false if the input
// cannot be examined without consuming it.
bool stdin_is_database(void);

// Fills the file with standard input.
int stream_file_fill(const struct stream_file *stream, struct err *err);

// Copies the file to standard output. Removes the file and the folder before the copy begins.
int stream_file_pour(struct stream_file *stream, struct err *err);

// Returns the whole text of a file, or of standard input for "-". The caller frees the text.
// Returns NULL with errno set on failure.
char *text_read(const char *path);
