// SPDX-License-Identifier: Apache-2.0
//
// The tokens of the protobuf text format, and errors that point at a token. For pbtext.c.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/str.h"

enum pbtext_token_type {
    PBTEXT_END,
    PBTEXT_IDENTIFIER,
    PBTEXT_NUMBER, // starts with a digit or a point; the reader checks the rest
    PBTEXT_STRING, // with its quotes, closed on its line
    PBTEXT_SYMBOL, // one character
};

struct pbtext_token {
    enum pbtext_token_type type;
    const char *start; // borrowed from the text; the text's end for PBTEXT_END
    size_t size;
};

struct pbtext_lexer {
    const char *name; // name of the text, for errors; borrowed
    const char *text; // borrowed
    const char *end;
    const char *pos;
    struct pbtext_token token; // present
    struct err *err;           // borrowed, may be NULL
};

// Makes the first token of `text` the present token. Returns 0, or -EINVAL as pbtext_lexer_next().
int pbtext_lexer_start(struct pbtext_lexer *lexer, const char *name, const char *text, size_t size,
                       struct err *err);

// Steps to the next token, over blanks and comments. Returns 0 or -EINVAL.
int pbtext_lexer_next(struct pbtext_lexer *lexer);

// Fills err with `NAME:LINE:COLUMN: message`, the line and a caret under `at`. Returns `r`.
__attribute__((format(printf, 4, 5))) int pbtext_lexer_error(const struct pbtext_lexer *lexer,
                                                             int r, const char *at,
                                                             const char *format, ...);

// Returns the number of the line with `at`, counted from 1.
size_t pbtext_lexer_line(const struct pbtext_lexer *lexer, const char *at);

static inline bool pbtext_token_is(const struct pbtext_token *token, char symbol)
{
    return token->type == PBTEXT_SYMBOL && *token->start == symbol;
}

static inline bool pbtext_token_eq(const struct pbtext_token *token, const char *text)
{
    return strlen(text) == token->size && memcmp(token->start, text, token->size) == 0;
}

// Returns the name of the present token for an error: `"word"`, a long word cut, or `the end of the
// text`.
#define PBTEXT_TOKEN_TEXT_MAX 64
const char *pbtext_token_text(const struct pbtext_token *token, char ret[PBTEXT_TOKEN_TEXT_MAX]);

// Reads a decimal, hexadecimal or octal number. Returns 0; -EINVAL if the token is not a whole
// number; -ERANGE if the number has more than 64 bits.
int pbtext_token_to_u64(const struct pbtext_token *token, uint64_t *ret);

// Reads a decimal number, with or without fraction, exponent and `f`. Returns 0 or -EINVAL.
int pbtext_token_to_double(const struct pbtext_token *token, double *ret);

// Appends the bytes of the present string token, with its escapes resolved. Returns 0 or -EINVAL.
int pbtext_lexer_unescape(const struct pbtext_lexer *lexer, struct strbuf *out);
