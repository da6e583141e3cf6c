// SPDX-License-Identifier: Apache-2.0
#include "producer/ground/line_reader.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

void line_reader_over(struct line_reader *reader, int fd)
{
    line_reader_begin(reader, NULL, NULL);
    reader->fd = fd;
}

void line_reader_begin(struct line_reader *reader,
                       ssize_t (*read)(void *userdata, char *buffer, size_t size), void *userdata)
{
    reader->fd = -1;
    reader->read = read;
    reader->userdata = userdata;
    reader->begin = reader->end = 0;
    reader->n_read = 0;
    reader->at_end = reader->overlong = false;
}

static ssize_t read_more(struct line_reader *reader, char *buffer, size_t size)
{
    if (reader->read)
        return reader->read(reader->userdata, buffer, size);
    ssize_t n;
    do
        n = read(reader->fd, buffer, size);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

// Reads more bytes after reader->end. Sets at_end at the end of the text.
static int fill(struct line_reader *reader)
{
    memmove(reader->buffer, reader->buffer + reader->begin, reader->end - reader->begin);
    reader->end -= reader->begin;
    reader->begin = 0;
    if (reader->end == sizeof(reader->buffer)) { // no newline in the whole buffer
        reader->end = 0;
        reader->overlong = true;
    }
    ssize_t n =
        read_more(reader, reader->buffer + reader->end, sizeof(reader->buffer) - reader->end);
    if (n < 0)
        return (int)n;
    reader->at_end = n == 0;
    reader->end += (size_t)n;
    reader->n_read += (uint64_t)n;
    return 0;
}

int line_reader_next(struct line_reader *reader, struct span *ret)
{
    for (;;) {
        char *line = reader->buffer + reader->begin;
        char *newline = memchr(line, '\n', reader->end - reader->begin);
        if (!newline && !reader->at_end) {
            int r = fill(reader);
            if (r < 0)
                return r;
            continue;
        }
        size_t size = newline ? (size_t)(newline - line) : reader->end - reader->begin;
        if (!newline && !size)
            return 0;
        reader->begin += size + (newline != NULL);
        bool whole = !reader->overlong;
        reader->overlong = false;
        *ret = span_over(line, size);
        if (whole)
            return 1;
    }
}

void line_reader_close(struct line_reader *reader)
{
    reader->fd = close_fd(reader->fd);
}
