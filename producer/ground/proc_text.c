// SPDX-License-Identifier: Apache-2.0
//
// Files of the kernel's seq_file kind return at most a page per read, cut between two records. Only
// a read that returns nothing proves the end. This second read is avoided if possible: no record
// follows a piece that leaves more room in its page than the longest record needs.
#include "producer/ground/proc_text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

bool span_take_line(struct span *rest, struct span *ret)
{
    if (rest->pos == rest->end)
        return false;
    const char *newline = memchr(rest->pos, '\n', span_size(*rest));
    *ret = (struct span){rest->pos, newline ? newline : rest->end};
    rest->pos = newline ? newline + 1 : rest->end;
    return true;
}

struct span span_whole_lines(struct span text)
{
    const char *last = span_size(text) > 0 ? memrchr(text.pos, '\n', span_size(text)) : NULL;
    return (struct span){text.pos, last ? last + 1 : text.pos};
}

bool span_take_word(struct span *rest, struct span *ret)
{
    const char *pos = rest->pos;
    while (pos < rest->end && is_blank(*pos))
        pos++;
    const char *start = pos;
    while (pos < rest->end && !is_blank(*pos))
        pos++;
    rest->pos = pos;
    *ret = (struct span){start, pos};
    return pos != start;
}

bool span_take_u64(struct span *rest, uint64_t *ret)
{
    struct span after = *rest, word;
    if (!span_take_word(&after, &word) || !str_scan_u64(&word.pos, word.end, ret))
        return false;
    *rest = after;
    return true;
}

bool span_take_prefix(struct span *rest, const char *prefix)
{
    size_t size = strlen(prefix);
    if (span_size(*rest) < size || memcmp(rest->pos, prefix, size) != 0)
        return false;
    rest->pos += size;
    return true;
}

bool span_take_key(struct span *line, struct span *ret)
{
    const char *colon = memchr(line->pos, ':', span_size(*line));
    if (!colon)
        return false;
    *ret = (struct span){line->pos, colon};
    line->pos = colon + 1;
    return true;
}

struct span span_value_of(struct span text, const char *key)
{
    struct span line;
    while (span_take_line(&text, &line))
        if (span_take_prefix(&line, key))
            return line;
    return (struct span){text.end, text.end};
}

uint64_t span_number_of(struct span text, const char *key)
{
    struct span value = span_value_of(text, key);
    uint64_t number;
    return span_take_u64(&value, &number) ? number : 0;
}

struct span span_trim(struct span span)
{
    while (span.pos < span.end && is_blank(*span.pos))
        span.pos++;
    while (span.pos < span.end && is_blank(span.end[-1]))
        span.end--;
    return span;
}

static int open_path(const char *root, const char *path, va_list args)
{
    char full[PATH_MAX];
    int n_root = snprintf(full, sizeof(full), "%s", root);
    if (n_root < 0 || (size_t)n_root >= sizeof(full))
        return -ENAMETOOLONG;
    int n = vsnprintf(full + n_root, sizeof(full) - (size_t)n_root, path, args);
    if (n < 0 || (size_t)n >= sizeof(full) - (size_t)n_root)
        return -ENAMETOOLONG;
    int fd = open(full, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int text_file_open(struct text_file *ret, size_t max_record, const char *root, const char *path,
                   ...)
{
    va_list args;
    va_start(args, path);
    int fd = open_path(root, path, args);
    va_end(args);
    long page = sysconf(_SC_PAGESIZE);
    size_t n_page = page > 0 ? (size_t)page : 4096;
    *ret = (struct text_file){.fd = fd < 0 ? -1 : fd};
    if (max_record == 0)
        ret->n_piece = SIZE_MAX;
    else if (max_record < n_page)
        ret->n_piece = n_page - max_record;
    return fd < 0 ? fd : 0;
}

void text_file_close(struct text_file *file)
{
    file->fd = close_fd(file->fd);
}

// Finds the last line of a text that ends with a newline. Returns false if the text does not end
// with a newline.
static bool last_line(struct span text, struct span *ret)
{
    if (text.pos == text.end || text.end[-1] != '\n')
        return false;
    text.end--;
    const char *newline = memrchr(text.pos, '\n', span_size(text));
    *ret = (struct span){newline ? newline + 1 : text.pos, text.end};
    return true;
}

void text_file_keep_end(struct text_file *file, struct span text)
{
    struct span line, word;
    file->last_name[0] = '\0';
    if (!last_line(text, &line) || !span_take_word(&line, &word) ||
        span_size(word) >= TEXT_NAME_MAX)
        return;
    memcpy(file->last_name, word.pos, span_size(word));
    file->last_name[span_size(word)] = '\0';
}

static bool is_complete(const struct text_file *file, struct span text)
{
    struct span line, word;
    return file->last_name[0] && last_line(text, &line) && span_take_word(&line, &word) &&
           span_eq(word, file->last_name);
}

ssize_t text_file_read(const struct text_file *file, char *buffer, size_t size)
{
    size_t filled = 0;
    while (filled < size) {
        ssize_t n = pread(file->fd, buffer + filled, size - filled, (off_t)filled);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return filled ? (ssize_t)filled : -errno;
        filled += (size_t)n;
        if (n == 0 || (size_t)n < file->n_piece || is_complete(file, span_over(buffer, filled)))
            break;
    }
    return (ssize_t)filled;
}

static ssize_t read_once(char *buffer, size_t size, const char *root, const char *path,
                         va_list args)
{
    int fd CLEANUP(close_fdp) = open_path(root, path, args);
    return fd < 0 ? fd : text_file_read(&(struct text_file){.fd = fd}, buffer, size);
}

ssize_t text_file_read_once(char *buffer, size_t size, const char *root, const char *path, ...)
{
    va_list args;
    va_start(args, path);
    ssize_t n = read_once(buffer, size, root, path, args);
    va_end(args);
    return n;
}

struct span text_file_span(char *buffer, size_t size, const char *root, const char *path, ...)
{
    va_list args;
    va_start(args, path);
    ssize_t n = read_once(buffer, size - 1, root, path, args);
    va_end(args);
    buffer[n > 0 ? n : 0] = '\0';
    return span_over(buffer, n > 0 ? (size_t)n : 0);
}
