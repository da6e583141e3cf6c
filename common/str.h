// SPDX-License-Identifier: Apache-2.0
//
// Strings: a growable buffer for building them, and strict parsers for the numbers, sizes and
// durations that people type.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/nsec.h"

// All zero is an empty buffer. `text` is NULL until something is added; otherwise always
// terminated.
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
// Hands the text over to the caller, who frees it; NULL if memory ran out. "" if nothing was added.
char *strbuf_steal(struct strbuf *buf);

static inline bool str_eq(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static inline bool str_starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

// Of a text in UTF-8, how many of the first `max` bytes are whole characters. 0 for NULL.
static inline size_t str_cut(const char *text, size_t size, size_t max)
{
    if (!text || size <= max)
        return text ? size : 0;
    while (max > 0 && ((unsigned char)text[max] & 0xc0) == 0x80)
        max--;
    return max;
}

bool str_ends_with(const char *text, const char *suffix);

// The whole of `text` as a decimal (or 0x hexadecimal) number; 0, -EINVAL or -ERANGE.
int str_parse_u64(const char *text, uint64_t *ret);
int str_parse_u32(const char *text, uint32_t *ret);
int str_parse_i64(const char *text, int64_t *ret);

// A decimal number at *cursor, for /proc text: skips blanks, advances behind the digits. False: no
// digit there (the cursor then stays) or more than 64 bits.
bool str_scan_u64(const char **cursor, const char *end, uint64_t *ret);

// The same of a hexadecimal number in lower case, without 0x; no blanks are skipped.
bool str_scan_hex(const char **cursor, const char *end, uint64_t *ret);

// "10s", "0.5s", "500ms", "2m", "1h"; a bare number means seconds. 0, -EINVAL or -ERANGE.
int str_parse_duration(const char *text, nsec_t *ret);

// "32mb", "1.5g", "512k", "4096"; powers of 1024, bare numbers are bytes, case does not matter.
int str_parse_size(const char *text, uint64_t *ret);

// The length (1 to 4) of the well-formed UTF-8 character at `text`, or 0: there is none before
// `end`. `ret` may be NULL.
size_t str_utf8_decode(const char *text, const char *end, uint32_t *ret);

// The character at `text`, which is before `end`: its length, at least 1 (a broken byte counts as
// one). *ret_printable: it is well-formed and no control character; tabs count as printable.
size_t str_character(const char *text, const char *end, bool *ret_printable);

// Fills `ret` with `text` for people to read: terminated, what is not printable as `?`, cut with
// `...` where it is longer than `ret_size` - 1. `ret_size` is at least 4. Returns `ret`.
const char *str_printable(char *ret, size_t ret_size, const char *text, size_t size);

// The same in place, for a whole terminated line that is about to be printed.
void str_make_printable(char *text, bool keep_newlines);

// Appends `code_point`, which must be at most 0x10ffff, as UTF-8.
void strbuf_add_utf8(struct strbuf *buf, uint32_t code_point);

// The nearest of `candidates` (n of them) to `text` by edit distance, or NULL if none is near
// enough to be worth suggesting.
const char *str_nearest(const char *text, const char *const *candidates, size_t n);
