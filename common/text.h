// SPDX-License-Identifier: Apache-2.0
//
// A text as its address and its size, borrowed and not terminated. TEXT() takes the size of a
// literal from the compiler.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct text {
    const char *at; // NULL: no text; its size is 0
    size_t size;
};

// The text of a literal. Fit for initializers of static tables.
#define TEXT(literal) ((struct text){"" literal, sizeof(literal) - 1})

// Returns the text of a terminated string. For NULL, returns no text.
static inline struct text text_from(const char *string)
{
    return (struct text){string, string ? strlen(string) : 0};
}

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Returns the value of a hexadecimal digit, or -1.
static inline int hex_digit(char c)
{
    int letter = c | 0x20;
    if (is_digit(c))
        return c - '0';
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

static inline bool text_eq(struct text a, struct text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

// Returns the order of two texts: by bytes without sign, and a text before its continuation.
static inline int text_compare(struct text a, struct text b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size ? memcmp(a.at, b.at, size) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static inline bool text_starts_with(struct text text, struct text prefix)
{
    return text.size >= prefix.size && text_eq((struct text){text.at, prefix.size}, prefix);
}

static inline bool text_ends_with(struct text text, struct text suffix)
{
    return text.size >= suffix.size &&
           text_eq((struct text){text.at + (text.size - suffix.size), suffix.size}, suffix);
}
