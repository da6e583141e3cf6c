// SPDX-License-Identifier: Apache-2.0
//
// Strings: a growable buffer, and strict parsers for numbers, sizes and durations.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/nsec.h"

// All zero is an empty buffer. `text` is NULL until something is added, and always terminated
// afterwards.
struct strbuf {
    char *text; // owned
    size_t size;
    size_t capacity;
    bool failed; // memory ran out; later additions do nothing
};

void strbuf_add(struct strbuf *buf, const void *bytes, size_t size);
void strbuf_add_str(struct strbuf *buf, const char *text);
void strbuf_add_char(struct strbuf *buf, char c);
__attribute__((format(printf, 2, 3))) void strbuf_addf(struct strbuf *buf, const char *format, ...);
void strbuf_clear(struct strbuf *buf);
void strbuf_done(struct strbuf *buf); // fit for CLEANUP()
// Moves the text to the caller, who frees it. Returns NULL if memory ran out, and "" if nothing was
// added.
char *strbuf_steal(struct strbuf *buf);

static inline bool str_eq(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static inline bool str_starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

// Returns the size of the longest beginning of `text` (UTF-8) that has at most `max` bytes and does
// not cut a character. Returns 0 if `text` is NULL.
static inline size_t str_cut(const char *text, size_t size, size_t max)
{
    if (!text || size <= max)
        return text ? size : 0;
    while (max > 0 && ((unsigned char)text[max] & 0xc0) == 0x80)
        max--;
    return max;
}

bool str_ends_with(const char *text, const char *suffix);

// Parses the whole `text` as a decimal or 0x hexadecimal number. Returns 0, -EINVAL or -ERANGE.
int str_parse_u64(const char *text, uint64_t *ret);
int str_parse_u32(const char *text, uint32_t *ret);
int str_parse_i64(const char *text, int64_t *ret);

// Reads a decimal number at *cursor, for /proc texts: skips blanks, reads the digits, and moves
// *cursor past them. Returns false, with *cursor unmoved, if no digit follows or the number has
// more than 64 bits.
bool str_scan_u64(const char **cursor, const char *end, uint64_t *ret);

// As str_scan_u64(), for a hexadecimal number in lower case without 0x. Skips no blanks.
bool str_scan_hex(const char **cursor, const char *end, uint64_t *ret);

// Parses a duration: "10s", "0.5s", "500ms", "2m" or "1h". A bare number is in seconds. *ret is in
// nanoseconds. Returns 0, -EINVAL or -ERANGE.
int str_parse_duration(const char *text, nsec_t *ret);

// Parses a size: "32mb", "1.5g", "512k" or "4096". Units are powers of 1024, in upper or lower
// case. A bare number is in bytes. Returns 0, -EINVAL or -ERANGE.
int str_parse_size(const char *text, uint64_t *ret);

// Returns the length (1 to 4) of the UTF-8 character at `text`, or 0 if no well-formed character
// ends before `end`. *ret is the code point; `ret` may be NULL.
size_t str_utf8_decode(const char *text, const char *end, uint32_t *ret);

// Returns the length of the character at `text`, at least 1: a broken byte counts as one character.
// `text` must lie before `end`. *ret_printable says whether the character is well-formed and not a
// control character; tabs count as printable.
size_t str_character(const char *text, const char *end, bool *ret_printable);

// Fills `ret` with a printable copy of `text`: terminated, with `?` for each character that is not
// printable, and cut with `...` if it is longer than `ret_size` - 1. `ret_size` is at least 4.
// Returns `ret`.
const char *str_printable(char *ret, size_t ret_size, const char *text, size_t size);

// Replaces each character of the terminated `text` that is not printable by `?`, in place. With
// `keep_newlines`, newlines stay.
void str_make_printable(char *text, bool keep_newlines);

// Appends `code_point` as UTF-8. `code_point` must be at most 0x10ffff.
void strbuf_add_utf8(struct strbuf *buf, uint32_t code_point);

// Returns a copy in lower case; only letters of ASCII change. NULL: memory is out.
char *str_lower(const char *text);

// Returns the candidate with the smallest edit distance to `text`, or NULL if none of the `n`
// candidates is near enough to suggest.
const char *str_nearest(const char *text, const char *const *candidates, size_t n);
