// SPDX-License-Identifier: Apache-2.0
//
// Reads the kernel's text files. A file stays open and costs one pread per sample. Spans cut its
// text into lines, words and numbers without copying.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

// A piece of text: borrowed, not terminated.
struct span {
    const char *pos;
    const char *end;
};

static inline struct span span_over(const char *text, size_t size)
{
    return (struct span){.pos = text, .end = size > 0 ? text + size : text};
}

static inline size_t span_size(struct span span)
{
    return (size_t)(span.end - span.pos);
}

static inline bool span_eq(struct span span, const char *text)
{
    size_t size = strlen(text);
    return span_size(span) == size && memcmp(span.pos, text, size) == 0;
}

// Takes the next line, without its newline, from the front of `rest`. Returns false at the end.
bool span_take_line(struct span *rest, struct span *ret);

// Returns the text up to and including the last newline, because a cut line would give a wrong
// number.
struct span span_whole_lines(struct span text);

// Takes the next word between blanks (space, tab, newline). Returns false at the end.
bool span_take_word(struct span *rest, struct span *ret);

// Takes the next word as a number. Text after the digits is taken too, and ignored. Returns false,
// with nothing taken, if the word does not begin with a digit or the number exceeds 64 bits.
bool span_take_u64(struct span *rest, uint64_t *ret);

// Takes `prefix` from the front. Returns false, with nothing taken, if `rest` does not begin with
// `prefix`.
bool span_take_prefix(struct span *rest, const char *prefix);

// Takes "Key:" from the front of a line. Returns false, with nothing taken, if the line has no
// colon.
bool span_take_key(struct span *line, struct span *ret);

// Returns the span without blanks and newlines at both ends.
struct span span_trim(struct span span);

#define TEXT_NAME_MAX 48

struct text_file {
    int fd;         // owned; -1: not open
    size_t n_piece; // The kernel may return the text in pieces; a read of fewer bytes is the last.
                    // SIZE_MAX: the text always comes as a whole
    char last_name[TEXT_NAME_MAX]; // last word of the text, by text_file_keep_end(); otherwise ""
};

// Opens ROOT + path (printf style). `max_record` is the size of the longest record in bytes; 0 for
// files that come as a whole. Returns 0 or a negative errno.
__attribute__((format(printf, 4, 5))) int text_file_open(struct text_file *ret, size_t max_record,
                                                         const char *root, const char *path, ...);
void text_file_close(struct text_file *file); // fit for CLEANUP()

// For files whose last line always begins with the same word, and no other line does. Remembers
// this word from `text`, the whole text, so that later reads recognise the end.
void text_file_keep_end(struct text_file *file, struct span text);

// Reads the file from its beginning into `buffer`, usually with one pread. Returns the size read
// (at most `size`) or a negative errno.
ssize_t text_file_read(const struct text_file *file, char *buffer, size_t size);

// Returns the text after `key` in the first line that begins with `key`, or an empty span.
struct span span_value_of(struct span text, const char *key);
// Returns the number after `key`, or 0.
uint64_t span_number_of(struct span text, const char *key);

// Opens, reads and closes a file. Returns its text, terminated, or an empty text if the file cannot
// be read.
__attribute__((format(printf, 4, 5))) struct span
text_file_span(char *buffer, size_t size, const char *root, const char *path, ...);

// Opens, reads and closes a file, and does not terminate the text. Returns the size or a negative
// errno.
__attribute__((format(printf, 4, 5))) ssize_t
text_file_read_once(char *buffer, size_t size, const char *root, const char *path, ...);
