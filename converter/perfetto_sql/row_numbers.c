// SPDX-License-Identifier: Apache-2.0
//
// A table of trace_processor's SQL has a hidden column _auto_id: the number of each row, from 0.
// Tables of SQLite number their rows from 1, in the order of insertion.
#include <string.h>

#include "converter/perfetto_sql/engine_state.h"
#include "converter/perfetto_sql/token.h"

#define COLUMN "_auto_id"

static bool is_name(struct sql_token token)
{
    return token.kind == SQL_WORD || token.kind == SQL_QUOTED;
}

// The column as written, with the names of schema and table before its name.
struct column {
    const char *begin; // NULL: there is no such column
    const char *name, *end;
    bool is_result; // the column is a whole result of a SELECT, and gives the result its name
};

static bool is_result(struct sql_token before, const char *after, const char *end)
{
    bool is_first = sql_token_is(before, "SELECT") || sql_token_is(before, "DISTINCT");
    return (is_first || sql_token_is(before, ",")) &&
           (sql_word_take(&after, end, "FROM") || (is_first && sql_word_take(&after, end, ",")));
}

// Returns the next column after `at`. A new name after AS is not a column.
static struct column column_next(const char *at, const char *end)
{
    struct column column = {0};
    struct sql_token last = {0}, before = {0}; // `before`: the token before all names of the column
    for (;;) {
        struct sql_token token = sql_token_next(&at, end);
        if (token.kind == SQL_END)
            return (struct column){0};
        if (is_name(token) && !(column.begin && sql_token_is(last, "."))) {
            column.begin = token.text;
            before = last;
        }
        if (sql_token_is(token, COLUMN) && !sql_token_is(last, "AS")) {
            column.name = token.text;
            column.end = at;
            column.is_result = is_result(before, at, end);
            return column;
        }
        last = token;
    }
}

static void column_replace(const struct sql_rope *rope, struct column column, struct sql_rope *ret)
{
    size_t begin = (size_t)(column.begin - rope->sql.text);
    size_t name = (size_t)(column.name - rope->sql.text);
    rope_add_made(ret, "(");
    rope_add(ret, rope, begin, name);
    rope_add_made_at(ret, "_rowid_", rope_origin(rope, name));
    rope_add_made(ret, column.is_result ? " - 1) AS " COLUMN : " - 1)");
}

// Returns the place after the columns that a CREATE declares.
static const char *body_begin(const char *sql, const char *end)
{
    const char *at = sql;
    if (!sql_word_take(&at, end, "CREATE"))
        return sql;
    struct sql_token token;
    do {
        token = sql_token_next(&at, end);
    } while (token.kind != SQL_END && !sql_token_is(token, "AS"));
    return at;
}

int row_numbers_replace(struct sql_rope *rope)
{
    const char *copied = rope->sql.text, *end = copied + rope->sql.size;
    const char *at = body_begin(copied, end);
    if (!memmem(copied, rope->sql.size, COLUMN, strlen(COLUMN)))
        return 0;
    struct sql_rope replaced = {0};
    struct column column;
    while ((column = column_next(at, end)).begin) {
        rope_add(&replaced, rope, (size_t)(copied - rope->sql.text),
                 (size_t)(column.begin - rope->sql.text));
        column_replace(rope, column, &replaced);
        at = copied = column.end;
    }
    rope_add(&replaced, rope, (size_t)(copied - rope->sql.text), rope->sql.size);
    if (rope_check(&replaced) < 0) {
        rope_done(&replaced);
        return -ENOMEM;
    }
    rope_done(rope);
    *rope = replaced;
    return 0;
}
