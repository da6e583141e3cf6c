// SPDX-License-Identifier: Apache-2.0
//
// Reading the kernel's text files: a file that stays open and costs one pread a sample, and spans
// that cut its text into lines, words and numbers without copying.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

// A piece of text, borrowed, not terminated.
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

// Takes the next line, without its newline, from the front of `rest`; false at the end.
bool span_take_line(struct span *rest, struct span *ret);

// Up to and with the last newline: a line that was cut would be a wrong number.
struct span span_whole_lines(struct span text);

// Takes the next word between blanks (space, tab, newline); false if there is none.
bool span_take_word(struct span *rest, struct span *ret);

// Takes the next word as a number. False, with nothing taken, if it does not begin with a digit or
// exceeds 64 bits; what follows the digits in that word is taken too.
bool span_take_u64(struct span *rest, uint64_t *ret);

// Takes `prefix` from the front; false and nothing taken if it is not there.
bool span_take_prefix(struct span *rest, const char *prefix);

// Without blanks and newlines at both ends.
struct span span_trim(struct span span);

#define TEXT_NAME_MAX 48

struct text_file {
    int fd;         // owned; -1: not there
    size_t n_piece; // the kernel may hand out the text in pieces; a read that ends with less than
                    // this is known to be the last. SIZE_MAX: the text always comes as a whole
    char last_name[TEXT_NAME_MAX]; // text_file_keep_end(); "" if it was not called
};

// Opens ROOT + path (printf style). 0 or a negative errno. `max_record` is the longest piece of
// text that the kernel makes at once, 0 for files that come as a whole.
__attribute__((format(printf, 4, 5))) int text_file_open(struct text_file *ret, size_t max_record,
                                                         const char *root, const char *path, ...);
void text_file_close(struct text_file *file); // fit for CLEANUP()

// For files whose last line always begins with the same word, and no other line does: remembers it
// from `text`, which is the whole text, so that the end is known when it is seen.
void text_file_keep_end(struct text_file *file, struct span text);

// Reads from the beginning into `buffer`. The size that was read (cut at `size`), or a negative
// errno. As a rule one pread.
ssize_t text_file_read(const struct text_file *file, char *buffer, size_t size);

// Opens, reads, closes. The size, or a negative errno.
__attribute__((format(printf, 4, 5))) ssize_t
text_file_read_once(char *buffer, size_t size, const char *root, const char *path, ...);
