// SPDX-License-Identifier: Apache-2.0
//
// JSON as a stream of tokens. The reader allocates no memory. The reader accepts deviations of real
// traces: superfluous commas, and control characters in strings.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/str.h"

#define JSON_DEPTH_MAX 64

enum json_type {
    JSON_END, // after the outermost value
    JSON_OBJECT,
    JSON_OBJECT_END,
    JSON_ARRAY,
    JSON_ARRAY_END,
    JSON_KEY,
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL, // also NaN and Infinity, which JSON lacks
    JSON_BAD,  // not JSON, or too deep
    JSON_CUT,  // the text ends inside of a value
};

struct json_token {
    enum json_type type;
    const char *start; // of a text: after its quote; borrowed
    size_t size;       // of a text: without quotes
    bool has_escapes;
};

struct json_reader {
    const char *at, *end;
    uint64_t objects; // a bit for each open container: 1 is an object
    unsigned depth;
    bool has_key;   // the value of a key follows
    bool has_value; // the outermost value is read
};

static inline struct json_reader json_reader_over(const void *text, size_t size)
{
    return (struct json_reader){.at = text, .end = size ? (const char *)text + size : text};
}

// Reads the next token. JSON_BAD and JSON_CUT do not move the reader.
struct json_token json_next(struct json_reader *reader);

// Called after JSON_OBJECT or JSON_ARRAY: moves past the whole container, of any depth, and makes
// `token` its text. The contents of the container are not checked. False: the text ends inside of
// the container.
bool json_skip(struct json_reader *reader, struct json_token *token);

static inline bool json_is(const struct json_token *token, const char *text)
{
    return strlen(text) == token->size && memcmp(token->start, text, token->size) == 0;
}

// Appends the text of a key or string, with its escapes resolved. Half of a surrogate pair, and an
// escape that JSON lacks, stay as they are.
void json_text_add(const struct json_token *token, struct strbuf *text);

// Reads a whole number of 64 bits, without point or exponent. Returns false for any other token.
bool json_int(const struct json_token *token, int64_t *ret);

// Reads any number. Returns false for any other token.
bool json_double(const struct json_token *token, double *ret);
