// SPDX-License-Identifier: Apache-2.0
//
// See json_reader.h. The kinds of the open containers are bits of a number, so the depth is
// limited.
#include "converter/ground/json_reader.h"

#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/text.h"

#define NUMBER_MAX 256 // characters of a number

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void blanks_skip(struct json_reader *reader)
{
    while (reader->at < reader->end && (is_blank(*reader->at) || *reader->at == ','))
        reader->at++;
}

// Reads the string whose first quote is at `at`. False: the string is not closed.
static bool string_scan(const char *at, const char *end, struct json_token *ret)
{
    const char *start = ++at;
    bool has_escapes = false;
    for (; at < end && *at != '"'; at++) {
        has_escapes |= *at == '\\';
        at += *at == '\\';
    }
    if (at >= end)
        return false;
    ret->start = start;
    ret->size = (size_t)(at - start);
    ret->has_escapes = has_escapes;
    return true;
}

static bool in_object(const struct json_reader *reader)
{
    return reader->depth && (reader->objects >> (reader->depth - 1) & 1);
}

static void value_end(struct json_reader *reader)
{
    reader->has_key = false;
    reader->has_value = reader->depth == 0;
}

static struct json_token container_begin(struct json_reader *reader, bool is_object)
{
    if (reader->depth == JSON_DEPTH_MAX)
        return (struct json_token){.type = JSON_BAD};
    uint64_t bit = UINT64_C(1) << reader->depth++;
    reader->objects = is_object ? reader->objects | bit : reader->objects & ~bit;
    reader->has_key = false;
    return (struct json_token){
        .type = is_object ? JSON_OBJECT : JSON_ARRAY, .start = reader->at++, .size = 1};
}

static struct json_token container_end(struct json_reader *reader, bool is_object)
{
    if (!reader->depth || in_object(reader) != is_object || reader->has_key)
        return (struct json_token){.type = JSON_BAD};
    reader->depth--;
    value_end(reader);
    return (struct json_token){
        .type = is_object ? JSON_OBJECT_END : JSON_ARRAY_END, .start = reader->at++, .size = 1};
}

static struct json_token text_read(struct json_reader *reader)
{
    struct json_token token = {.type = JSON_STRING};
    if (!string_scan(reader->at, reader->end, &token))
        return (struct json_token){.type = JSON_CUT};
    const char *at = token.start + token.size + 1;
    if (in_object(reader) && !reader->has_key) {
        while (at < reader->end && is_blank(*at))
            at++;
        if (at == reader->end || *at != ':')
            return (struct json_token){.type = at == reader->end ? JSON_CUT : JSON_BAD};
        token.type = JSON_KEY;
        reader->has_key = true;
        at++;
    } else {
        value_end(reader);
    }
    reader->at = at;
    return token;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-' ||
           c == '+' || c == '.';
}

static struct json_token word_read(struct json_reader *reader)
{
    static const struct {
        struct text word;
        enum json_type type;
    } words[] = {
        {TEXT("true"), JSON_TRUE}, {TEXT("false"), JSON_FALSE},   {TEXT("null"), JSON_NULL},
        {TEXT("NaN"), JSON_NULL},  {TEXT("Infinity"), JSON_NULL}, {TEXT("-Infinity"), JSON_NULL},
    };
    const char *at = reader->at;
    while (at < reader->end && is_word(*at))
        at++;
    struct json_token token = {
        .type = JSON_BAD, .start = reader->at, .size = (size_t)(at - reader->at)};
    struct text word = {token.start, token.size};
    for (size_t i = 0; i < ELEMENTS(words); i++)
        if (text_eq(word, words[i].word))
            token.type = words[i].type;
    bool is_number =
        token.size && (is_digit(*token.start) || (*token.start == '-' && token.size > 1));
    if (token.type == JSON_BAD && is_number)
        token.type = JSON_NUMBER;
    bool fits = !in_object(reader) || reader->has_key;
    if (at == reader->end && reader->depth)
        token.type = JSON_CUT;
    if (!fits && token.type != JSON_CUT)
        token.type = JSON_BAD;
    if (token.type != JSON_BAD && token.type != JSON_CUT) {
        value_end(reader);
        reader->at = at;
    }
    return token;
}

struct json_token json_next(struct json_reader *reader)
{
    blanks_skip(reader);
    if (reader->has_value)
        return (struct json_token){.type = JSON_END};
    if (reader->at == reader->end)
        return (struct json_token){.type = JSON_CUT};
    bool takes_value = !in_object(reader) || reader->has_key;
    switch (*reader->at) {
    case '{':
    case '[':
        return takes_value ? container_begin(reader, *reader->at == '{')
                           : (struct json_token){.type = JSON_BAD};
    case '}':
    case ']':
        return container_end(reader, *reader->at == '}');
    case '"':
        return text_read(reader);
    default:
        return word_read(reader);
    }
}

bool json_skip(struct json_reader *reader, struct json_token *token)
{
    const char *at = reader->at;
    size_t depth = 1;
    for (; at < reader->end && depth; at++) {
        struct json_token text;
        if (*at == '"') {
            if (!string_scan(at, reader->end, &text))
                return false;
            at = text.start + text.size;
        } else {
            depth += *at == '{' || *at == '[';
            depth -= *at == '}' || *at == ']';
        }
    }
    if (depth)
        return false;
    token->size = (size_t)(at - token->start);
    reader->at = at;
    reader->depth--;
    value_end(reader);
    return true;
}

static bool hex_read(const char *at, const char *end, uint32_t *ret)
{
    *ret = 0;
    if (end - at < 4)
        return false;
    for (size_t i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return false;
        *ret = *ret << 4 | (uint32_t)digit;
    }
    return true;
}

// Resolves `\u` at `at`, and the other half of a surrogate pair. Returns the address after the
// escapes, or NULL.
static const char *unicode_add(const char *at, const char *end, struct strbuf *text)
{
    uint32_t c, low;
    if (!hex_read(at + 2, end, &c))
        return NULL;
    at += 6;
    if (c >= 0xd800 && c < 0xe000) {
        if (c >= 0xdc00 || end - at < 6 || at[0] != '\\' || at[1] != 'u' ||
            !hex_read(at + 2, end, &low) || low < 0xdc00 || low >= 0xe000)
            return NULL;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
    }
    strbuf_add_utf8(text, c);
    return at;
}

void json_text_add(const struct json_token *token, struct strbuf *text)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *at = token->start, *end = at + token->size;
    while (at < end) {
        const char *escape = token->has_escapes ? memchr(at, '\\', (size_t)(end - at)) : NULL;
        strbuf_add(text, at, (size_t)((escape ? escape : end) - at));
        if (!escape)
            return;
        const char *letter = end - escape > 1 && escape[1] ? strchr(letters, escape[1]) : NULL;
        const char *after =
            end - escape > 1 && escape[1] == 'u' ? unicode_add(escape, end, text) : NULL;
        if (letter)
            strbuf_add_char(text, meanings[letter - letters]);
        else if (!after)
            strbuf_add_char(text, '\\');
        at = after ? after : escape + (letter ? 2 : 1);
    }
}

bool json_int(const struct json_token *token, int64_t *ret)
{
    bool is_negative = token->size && *token->start == '-';
    int64_t value = 0;
    if (token->type != JSON_NUMBER)
        return false;
    for (size_t i = is_negative; i < token->size; i++) {
        int digit = token->start[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, is_negative ? -digit : digit, &value))
            return false;
    }
    *ret = value;
    return true;
}

bool json_double(const struct json_token *token, double *ret)
{
    char copy[NUMBER_MAX], *end;
    if (token->type != JSON_NUMBER || token->size >= sizeof(copy))
        return false;
    memcpy(copy, token->start, token->size);
    copy[token->size] = '\0';
    double value = strtod(copy, &end);
    if (*end)
        return false;
    *ret = value;
    return true;
}
