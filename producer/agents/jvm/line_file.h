// SPDX-License-Identifier: Apache-2.0
//
// A file of lines that other programs read while it grows. It is written in large pieces, each up
// to the end of a line. Not thread-safe.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define LINE_FILE_BUFFER (256 * 1024)

struct line_file {
    int fd;      // -1: closed
    int failure; // the negative errno of a failed write; 0: closed in order
    off_t size;
    size_t n_buffer;
    char *buffer; // owned; NULL: closed
};

// Opens a plain file, which is made if it is missing, and empties it. A link of any kind, or a file
// that has a second name, is refused and left alone. Returns a descriptor or a negative errno.
int line_file_take(const char *path);

// Opens the file by line_file_take(). Returns 0 or a negative errno.
int line_file_open(struct line_file *file, const char *path);

// Returns whether a line of `size` fits without a write of the buffered lines.
bool line_fits(const struct line_file *file, size_t size);

// Returns room for a whole line of at most `size` bytes and its end; NULL if the file is closed.
char *line_begin(struct line_file *file, size_t size);
void line_end(struct line_file *file, char *end);

// Writes the lines. If a write fails half-way, the file is cut to the last whole line and closed.
// Returns false if the file is closed.
bool line_file_flush(struct line_file *file);

void line_file_close(struct line_file *file);
