// SPDX-License-Identifier: Apache-2.0
#include "converter/perfetto_sql/token.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool is_name_start(char c)
{
    return isalpha((unsigned char)c) || c == '_' || ((unsigned char)c & 0x80);
}

static bool is_name(char c)
{
    return is_name_start(c) || isdigit((unsigned char)c) || c == '$';
}

static const char *name_end(const char *at, const char *end)
{
    while (at < end && is_name(*at))
        at++;
    return at;
}

// Returns the end of a text in quotes. `at` is after the opening quote. A doubled quote belongs to
// the text.
static const char *quoted_end(const char *at, const char *end, char quote)
{
    for (; at < end; at++)
        if (*at == quote) {
            if (quote == ']' || at + 1 == end || at[1] != quote)
                return at + 1;
            at++;
        }
    return end;
}

static const char *blank_end(const char *at, const char *end)
{
    if (isspace((unsigned char)*at)) {
        while (at < end && isspace((unsigned char)*at))
            at++;
        return at;
    }
    bool is_line = *at == '-';
    for (at += 2; at < end; at++)
        if (is_line ? *at == '\n' : end - at > 1 && at[0] == '*' && at[1] == '/')
            return at + (is_line ? 1 : 2);
    return end;
}

static bool is_blank(const char *at, const char *end)
{
    return isspace((unsigned char)*at) ||
           (end - at > 1 && ((at[0] == '-' && at[1] == '-') || (at[0] == '/' && at[1] == '*')));
}

static const char *number_end(const char *at, const char *end)
{
    while (at < end && (isalnum((unsigned char)*at) || *at == '.' || *at == '_' ||
                        ((*at == '+' || *at == '-') && (at[-1] | 0x20) == 'e')))
        at++;
    return at;
}

struct sql_token sql_token_read(const char *at, const char *end)
{
    struct sql_token token = {SQL_END, at, 0};
    const char *after = at;
    if (at >= end)
        return token;
    if (is_blank(at, end)) {
        token.kind = SQL_BLANK;
        after = blank_end(at, end);
    } else if (is_name_start(*at)) {
        token.kind = SQL_WORD;
        after = name_end(at, end);
    } else if (*at == '\'') {
        token.kind = SQL_STRING;
        after = quoted_end(at + 1, end, '\'');
    } else if (*at == '"' || *at == '`' || *at == '[') {
        token.kind = SQL_QUOTED;
        after = quoted_end(at + 1, end, *at == '[' ? ']' : *at);
    } else if (isdigit((unsigned char)*at)) {
        token.kind = SQL_NUMBER;
        after = number_end(at + 1, end);
    } else if (memchr("$?:@", *at, 4) && name_end(at + 1, end) > at + 1) {
        token.kind = SQL_VARIABLE;
        after = name_end(at + 1, end);
    } else {
        token.kind = SQL_SYMBOL;
        after = at + 1;
    }
    token.size = (size_t)(after - at);
    return token;
}

struct sql_token sql_token_next(const char **cursor, const char *end)
{
    struct sql_token token;
    do {
        token = sql_token_read(*cursor, end);
        *cursor = token.text + token.size;
    } while (token.kind == SQL_BLANK);
    return token;
}

bool sql_token_is(struct sql_token token, const char *word)
{
    return (token.kind == SQL_WORD || token.kind == SQL_SYMBOL) && token.size == strlen(word) &&
           strncasecmp(token.text, word, token.size) == 0;
}

bool sql_word_take(const char **cursor, const char *end, const char *word)
{
    const char *at = *cursor;
    if (!sql_token_is(sql_token_next(&at, end), word))
        return false;
    *cursor = at;
    return true;
}

static bool is_trigger(const char *at, const char *end)
{
    if (!sql_word_take(&at, end, "CREATE"))
        return false;
    if (!sql_word_take(&at, end, "TEMP"))
        sql_word_take(&at, end, "TEMPORARY");
    return sql_word_take(&at, end, "TRIGGER");
}

const char *sql_statement_end(const char *at, const char *end)
{
    bool has_body = is_trigger(at, end), body_ends = false;
    int n_cases = 0;
    for (;;) {
        struct sql_token token = sql_token_next(&at, end);
        if (token.kind == SQL_END || (sql_token_is(token, ";") && (!has_body || body_ends)))
            return token.text;
        bool is_end = sql_token_is(token, "END");
        body_ends = is_end && n_cases == 0;
        n_cases += sql_token_is(token, "CASE") ? 1 : is_end && n_cases > 0 ? -1 : 0;
    }
}

const char *sql_blanks_skip(const char *at, const char *end)
{
    return sql_token_next(&at, end).text;
}
