// SPDX-License-Identifier: Apache-2.0
//
// Tokens are slices of the text, so that no memory is needed. Lines and columns are counted only
// for an error.
//
// The excerpt in an error must be safe to print: control bytes and broken UTF-8 become `?`, and a
// long line is cut to a window around the caret. Name, message and excerpt together fit into
// ERR_TEXT_MAX, so that the caret is never cut off. Tabs are repeated before the caret, so
// that the caret lines up with any tab width.
#include "common/pbtext_lex.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/text.h"

#define NAME_MAX_BYTES    200
#define MESSAGE_MAX_BYTES 360
#define WINDOW_COLUMNS    68 // of the line, in an excerpt
#define WINDOW_BEFORE     44 // most columns before the caret

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static size_t count_columns(const char *from, const char *to)
{
    size_t n = 0;
    bool safe;
    for (; from < to; n++)
        from += str_character(from, to, &safe);
    return n;
}

static const char *skip_columns(const char *from, const char *to, size_t n)
{
    bool safe;
    for (; n && from < to; n--)
        from += str_character(from, to, &safe);
    return from;
}

struct excerpt {
    char text[WINDOW_COLUMNS * 4 + 8];
    char below[WINDOW_COLUMNS + 8];
};

static void excerpt_make(struct excerpt *excerpt, const char *line, const char *at, const char *end)
{
    size_t before = count_columns(line, at), n_text = 0, n_below = 0;
    const char *p = line;
    if (before > WINDOW_BEFORE && before + count_columns(at, end) > WINDOW_COLUMNS) {
        p = skip_columns(line, at, before - WINDOW_BEFORE);
        n_text = n_below = 3;
        memcpy(excerpt->text, "...", 3);
        memcpy(excerpt->below, "   ", 3);
    }
    const char *stop = skip_columns(p, end, WINDOW_COLUMNS);
    while (p < stop) {
        bool safe;
        size_t size = str_character(p, stop, &safe);
        if (p < at)
            excerpt->below[n_below++] = *p == '\t' ? '\t' : ' ';
        if (safe) {
            memcpy(excerpt->text + n_text, p, size);
            n_text += size;
        } else {
            excerpt->text[n_text++] = '?';
        }
        p += size;
    }
    if (stop < end) {
        memcpy(excerpt->text + n_text, "...", 3);
        n_text += 3;
    }
    excerpt->text[n_text] = excerpt->below[n_below] = '\0';
}

size_t pbtext_lexer_line(const struct pbtext_lexer *lexer, const char *at)
{
    size_t line = 1;
    for (const char *p = lexer->text; p < at; p++)
        line += *p == '\n';
    return line;
}

int pbtext_lexer_error(const struct pbtext_lexer *lexer, int r, const char *at, const char *format,
                       ...)
{
    if (!lexer->err)
        return r;
    char message[MESSAGE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);

    const char *line = at, *end = at;
    while (line > lexer->text && line[-1] != '\n')
        line--;
    while (end < lexer->end && *end != '\n')
        end++;
    if (end > at && end[-1] == '\r')
        end--;
    struct excerpt excerpt;
    excerpt_make(&excerpt, line, at, end);
    size_t name_size = strlen(lexer->name);
    bool cut = name_size > NAME_MAX_BYTES;
    return err_set(lexer->err, r, "%s%s:%zu:%zu: %s\n    %s\n    %s^", cut ? "..." : "",
                   lexer->name + (cut ? name_size - NAME_MAX_BYTES : 0),
                   pbtext_lexer_line(lexer, at), count_columns(line, at) + 1, message, excerpt.text,
                   excerpt.below);
}

const char *pbtext_token_text(const struct pbtext_token *token, char ret[PBTEXT_TOKEN_TEXT_MAX])
{
    if (token->type == PBTEXT_END) {
        snprintf(ret, PBTEXT_TOKEN_TEXT_MAX, "the end of the text");
        return ret;
    }
    char text[PBTEXT_TOKEN_TEXT_MAX - 2];
    const char *quote = token->type == PBTEXT_STRING ? "" : "\"";
    str_printable(text, sizeof(text), token->start, token->size);
    snprintf(ret, PBTEXT_TOKEN_TEXT_MAX, "%s%s%s", quote, text, quote);
    return ret;
}

static void skip_blanks(struct pbtext_lexer *lexer)
{
    while (lexer->pos < lexer->end) {
        if (*lexer->pos == '#') {
            while (lexer->pos < lexer->end && *lexer->pos != '\n')
                lexer->pos++;
        } else if (is_blank(*lexer->pos)) {
            lexer->pos++;
        } else {
            return;
        }
    }
}

static void scan_number(struct pbtext_lexer *lexer)
{
    const char *start = lexer->pos;
    bool hex = lexer->end - start > 1 && start[0] == '0' && (start[1] | 0x20) == 'x';
    while (lexer->pos < lexer->end) {
        char c = *lexer->pos;
        bool sign =
            (c == '+' || c == '-') && !hex && lexer->pos > start && (lexer->pos[-1] | 0x20) == 'e';
        if (!is_word(c) && c != '.' && !sign)
            return;
        lexer->pos++;
    }
}

static int scan_string(struct pbtext_lexer *lexer)
{
    const char *start = lexer->pos++;
    while (lexer->pos < lexer->end && *lexer->pos != '\n') {
        char c = *lexer->pos++;
        if (c == *start)
            return 0;
        if (c == '\\' && lexer->pos < lexer->end && *lexer->pos != '\n')
            lexer->pos++;
    }
    return pbtext_lexer_error(lexer, -EINVAL, start, "this string is not closed on its line");
}

int pbtext_lexer_next(struct pbtext_lexer *lexer)
{
    skip_blanks(lexer);
    const char *start = lexer->pos;
    enum pbtext_token_type type;
    int r = 0;
    if (start == lexer->end) {
        type = PBTEXT_END;
    } else if (is_digit(*start) ||
               (*start == '.' && lexer->end - start > 1 && is_digit(start[1]))) {
        type = PBTEXT_NUMBER;
        scan_number(lexer);
    } else if (is_word(*start)) {
        type = PBTEXT_IDENTIFIER;
        while (lexer->pos < lexer->end && is_word(*lexer->pos))
            lexer->pos++;
    } else if (*start == '"' || *start == '\'') {
        type = PBTEXT_STRING;
        r = scan_string(lexer);
    } else if ((unsigned char)*start < 0x20 || (unsigned char)*start >= 0x7f) {
        return pbtext_lexer_error(lexer, -EINVAL, start, "a byte 0x%02x outside of a string",
                                  (unsigned char)*start);
    } else {
        type = PBTEXT_SYMBOL;
        lexer->pos++;
    }
    lexer->token = (struct pbtext_token){type, start, (size_t)(lexer->pos - start)};
    return r;
}

int pbtext_lexer_start(struct pbtext_lexer *lexer, const char *name, const char *text, size_t size,
                       struct err *err)
{
    *lexer = (struct pbtext_lexer){
        .name = name, .text = text, .end = text + size, .pos = text, .err = err};
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    if (size >= 3 && memcmp(text, byte_order_mark, 3) == 0)
        lexer->text = lexer->pos = text + 3;
    return pbtext_lexer_next(lexer);
}

int pbtext_token_to_u64(const struct pbtext_token *token, uint64_t *ret)
{
    const char *p = token->start, *end = p + token->size;
    unsigned base = 10;
    if (end - p > 1 && *p == '0') {
        base = (p[1] | 0x20) == 'x' ? 16 : 8;
        p += base == 16 ? 2 : 1;
        if (p == end)
            return -EINVAL;
    }
    uint64_t value = 0;
    bool overflow = false;
    for (; p < end; p++) {
        int digit = hex_digit(*p);
        if (digit < 0 || (unsigned)digit >= base)
            return -EINVAL;
        overflow |= __builtin_mul_overflow(value, (uint64_t)base, &value);
        overflow |= __builtin_add_overflow(value, (uint64_t)digit, &value);
    }
    if (overflow)
        return -ERANGE;
    *ret = value;
    return 0;
}

int pbtext_token_to_double(const struct pbtext_token *token, double *ret)
{
    char copy[512];
    size_t size = token->size;
    if (size > 1 && (token->start[size - 1] | 0x20) == 'f')
        size--;
    bool octal = size > 1 && token->start[0] == '0' && is_word(token->start[1]) &&
                 (token->start[1] | 0x20) != 'e';
    if (octal || size >= sizeof(copy))
        return -EINVAL;
    memcpy(copy, token->start, size);
    copy[size] = '\0';
    char *end;
    double value = strtod(copy, &end);
    if (*end || end == copy)
        return -EINVAL;
    *ret = value;
    return 0;
}

// Reads up to `max` digits of `base` and moves *p past them. Returns false for fewer than `min`
// digits.
static bool scan_digits(const char **p, const char *end, unsigned base, size_t min, size_t max,
                        uint32_t *ret)
{
    size_t n = 0;
    *ret = 0;
    for (; n < max && *p < end; n++, ++*p) {
        int digit = hex_digit(**p);
        if (digit < 0 || (unsigned)digit >= base)
            break;
        *ret = *ret * base + (uint32_t)digit;
    }
    return n >= min;
}

// Resolves an escape after `\u` or `\U` and moves *p past its digits. Two halves of a surrogate
// pair make one character.
static bool unescape_unicode(const char **p, const char *end, char kind, struct strbuf *out)
{
    size_t n_digits = kind == 'u' ? 4 : 8;
    uint32_t c, low;
    if (!scan_digits(p, end, 16, n_digits, n_digits, &c) || c > 0x10ffff)
        return false;
    if (c >= 0xd800 && c < 0xdc00) {
        if (end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u')
            return false;
        *p += 2;
        if (!scan_digits(p, end, 16, 4, 4, &low) || low < 0xdc00 || low >= 0xe000)
            return false;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xdc00 && c < 0xe000) {
        return false;
    }
    strbuf_add_utf8(out, c);
    return true;
}

// Resolves one escape after the backslash and moves *p past the escape.
static bool unescape_one(const char **p, const char *end, struct strbuf *out)
{
    static const char letters[] = "abfnrtv?\\'\"", meanings[] = "\a\b\f\n\r\t\v?\\'\"";
    char c = *(*p)++;
    const char *letter = c ? strchr(letters, c) : NULL;
    uint32_t byte;
    if (letter) {
        strbuf_add_char(out, meanings[letter - letters]);
        return true;
    }
    if (c == 'u' || c == 'U')
        return unescape_unicode(p, end, c, out);
    if (c == 'x' || c == 'X') {
        if (!scan_digits(p, end, 16, 1, 2, &byte))
            return false;
    } else {
        --*p;
        if (!scan_digits(p, end, 8, 1, 3, &byte) || byte > 0xff)
            return false;
    }
    strbuf_add_char(out, (char)byte);
    return true;
}

int pbtext_lexer_unescape(const struct pbtext_lexer *lexer, struct strbuf *out)
{
    const char *p = lexer->token.start + 1, *end = lexer->token.start + lexer->token.size - 1;
    while (p < end) {
        const char *escape = memchr(p, '\\', (size_t)(end - p));
        strbuf_add(out, p, (size_t)((escape ? escape : end) - p));
        if (!escape)
            break;
        p = escape + 1;
        if (!unescape_one(&p, end, out))
            return pbtext_lexer_error(lexer, -EINVAL, escape, "no such escape in a string");
    }
    return 0;
}
