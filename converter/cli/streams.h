// SPDX-License-Identifier: Apache-2.0
//
// "-" as the name of a database. SQLite reads and writes files with names only, so a database that
// comes or goes through a pipe is in a file of its own meanwhile.
#pragma once

#include <stdbool.h>

#include "common/err.h"

// A file in a folder of its own, among the system's temporary files. All zero is none.
struct stream_file {
    char *folder; // owned
    char *file;   // owned; there may be no file of this name yet
};

int stream_file_make(struct stream_file *stream, struct err *err);
void stream_file_done(
    struct stream_file *stream); // removes the file and the folder; fit for CLEANUP()

// Whether a database is what standard input has. Nothing is consumed. False where input cannot be
// looked at without consuming it.
bool stdin_is_database(void);

// Fills the file with standard input.
int stream_file_fill(const struct stream_file *stream, struct err *err);

// Copies the file to standard output. The file and the folder are gone as soon as that
// begins.
int stream_file_pour(struct stream_file *stream, struct err *err);

// The whole of a file, or of standard input for "-". Freed by the caller; NULL with errno set.
char *text_read(const char *path);
