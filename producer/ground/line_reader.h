// SPDX-License-Identifier: Apache-2.0
//
// Reads a text of any size line by line, with constant memory. Lines longer than the buffer are
// skipped.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "producer/ground/proc_text.h"

#define LINE_READER_SIZE 32768

struct line_reader {
    int fd; // closed by line_reader_close(); -1: not open
    // Reads the next bytes as read(2) does, or returns a negative errno; NULL: read(2) of `fd`.
    ssize_t (*read)(void *userdata, char *buffer, size_t size);
    void *userdata;
    size_t begin, end; // of the rest in `buffer`
    uint64_t n_read;   // bytes so far
    bool at_end, overlong;
    char buffer[LINE_READER_SIZE];
};

// Reads from `fd`, which line_reader_close() closes, or takes the text from `read`.
void line_reader_over(struct line_reader *reader, int fd);
void line_reader_begin(struct line_reader *reader,
                       ssize_t (*read)(void *userdata, char *buffer, size_t size), void *userdata);
// Returns 1 with the next line, without its newline, borrowed until the next call; 0 at the end; or
// a negative errno. The last line may lack its newline.
int line_reader_next(struct line_reader *reader, struct span *ret);
void line_reader_close(struct line_reader *reader);

// Returns the number of bytes up to the end of the last line.
static inline uint64_t line_reader_position(const struct line_reader *reader)
{
    return reader->n_read - (reader->end - reader->begin);
}
