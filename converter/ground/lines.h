// SPDX-License-Identifier: Apache-2.0
//
// Lines and words of borrowed bytes. Nothing is copied.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/text.h"

#define LINE_MAX_BYTES ((size_t)1 << 20) // longer lines are damage

struct span {
    const char *at, *end;
};

struct lines {
    const char *at, *end;
    uint64_t number; // of the last line returned, from 1
};

// Begins at the first line of `bytes`. `bytes` may be NULL if `size` is 0.
static inline struct lines lines_over(const uint8_t *bytes, size_t size)
{
    const char *at = (const char *)bytes;
    return (struct lines){.at = at, .end = size ? at + size : at};
}

static inline size_t text_size(struct span text)
{
    return (size_t)(text.end - text.at);
}

static inline bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static inline struct span text_trim_start(struct span text)
{
    while (text.at < text.end && is_blank(*text.at))
        text.at++;
    return text;
}

static inline struct span text_trim_end(struct span text)
{
    while (text.at < text.end && is_blank(text.end[-1]))
        text.end--;
    return text;
}

static inline struct span text_trim(struct span text)
{
    return text_trim_end(text_trim_start(text));
}

// Takes the next line, without the newline and surrounding blanks. False at the end.
static inline bool lines_next(struct lines *lines, struct span *ret)
{
    if (lines->at == lines->end)
        return false;
    const char *newline = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
    *ret = text_trim((struct span){lines->at, newline ? newline : lines->end});
    lines->at = newline ? newline + 1 : lines->end;
    lines->number++;
    return true;
}

// Takes the next line that is not blank, like lines_next().
static inline bool lines_next_full(struct lines *lines, struct span *ret)
{
    while (lines_next(lines, ret))
        if (ret->at < ret->end)
            return true;
    return false;
}

// Removes the next word and the blanks after the word from the front of `text`. Returns the word;
// empty at the end.
static inline struct span word_take(struct span *text)
{
    struct span word = {text->at, text->at};
    while (word.end < text->end && !is_blank(*word.end))
        word.end++;
    *text = text_trim_start((struct span){word.end, text->end});
    return word;
}

// Removes the last word and the blanks around the word from the end of `text`. Returns the word;
// empty at the start.
static inline struct span last_word_take(struct span *text)
{
    struct span rest = text_trim_end(*text), word = {rest.end, rest.end};
    while (word.at > rest.at && !is_blank(word.at[-1]))
        word.at--;
    *text = text_trim_end((struct span){rest.at, word.at});
    return word;
}

static inline bool text_is(struct span text, const char *word)
{
    size_t n = strlen(word);
    return text_size(text) == n && memcmp(text.at, word, n) == 0;
}

static inline bool line_contains(struct span line, struct text needle)
{
    return memmem(line.at, text_size(line), needle.at, needle.size) != NULL;
}

// Parses all of `text` as a decimal number. False: not a number, or more than 64 bits.
static inline bool text_decimal(struct span text, uint64_t *ret)
{
    uint64_t value = 0;
    if (text.at == text.end)
        return false;
    for (; text.at < text.end; text.at++) {
        unsigned digit = (unsigned char)*text.at - (unsigned)'0';
        if (digit > 9 || value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret = value;
    return true;
}

// Parses all of `text` as a hexadecimal number, with or without 0x. False: not a number, or more
// than 64 bits.
static inline bool text_hex(struct span text, uint64_t *ret)
{
    if (text_size(text) > 2 && text.at[0] == '0' && (text.at[1] | 0x20) == 'x')
        text.at += 2;
    uint64_t value = 0;
    if (text.at == text.end)
        return false;
    for (; text.at < text.end; text.at++) {
        int digit = hex_digit(*text.at);
        if (digit < 0 || value >> 60)
            return false;
        value = value << 4 | (unsigned)digit;
    }
    *ret = value;
    return true;
}

// Returns true if the text has a control character other than a tab.
static inline bool text_is_binary(struct span text)
{
    for (; text.at < text.end; text.at++)
        if ((unsigned char)*text.at < ' ' && *text.at != '\t')
            return true;
    return false;
}
