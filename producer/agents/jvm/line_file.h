// SPDX-License-Identifier: Apache-2.0
//
// A file of lines that other programs read while it grows: written in large pieces, always up to
// the end of a line. Not safe for threads.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define LINE_FILE_BUFFER (256 * 1024)

struct line_file {
    int fd;      // -1: closed
    int failure; // why: the negative errno of a write; 0: it was closed
    off_t size;
    size_t n_buffer;
    char *buffer; // owned; NULL: closed
};

// The descriptor of an empty file, which takes the place of a plain one with no other name; a link
// of any kind is refused, and left as it is. Or a negative errno.
int line_file_take(const char *path);

// Replaces the file; a link of any kind is refused. 0 or negative errno.
int line_file_open(struct line_file *file, const char *path);

// Whether such a line goes in without the others being written.
bool line_fits(const struct line_file *file, size_t size);

// Room for a whole line of at most `size` bytes and its end; NULL: the file is closed.
char *line_begin(struct line_file *file, size_t size);
void line_end(struct line_file *file, char *end);

// A write that fails half-way is taken back to the last whole line, and closes the file. False: it
// is closed.
bool line_file_flush(struct line_file *file);

void line_file_close(struct line_file *file);
