// SPDX-License-Identifier: Apache-2.0
//
// Tables of trace_processor are virtual tables, which may have an empty list of arguments: FROM
// t(). SQLite accepts tables and views only without the list.
#include <sqlite3.h>
#include <string.h>
#include <strings.h>

#include "converter/perfetto_sql/engine_state.h"
#include "converter/perfetto_sql/token.h"

// Returns the name in SQLite's message: 'NAME' is not a function.
static struct sql_part refused_name(const char *message)
{
    static const char why[] = "' is not a function";
    const char *end = strstr(message, why);
    return end && *message == '\'' && !end[strlen(why)]
               ? (struct sql_part){message + 1, (size_t)(end - message) - 1}
               : (struct sql_part){0};
}

// Returns whether an empty list follows. *ret is after the list.
static bool is_empty_list(const char *at, const char *end, const char **ret)
{
    bool is_empty = sql_word_take(&at, end, "(") && sql_word_take(&at, end, ")");
    *ret = at;
    return is_empty;
}

int table_calls_replace(const struct sql_rope *rope, const char *message, struct sql_rope *ret)
{
    const char *sql = rope->sql.text, *end = sql + rope->sql.size, *at = sql, *copied = sql, *after;
    struct sql_part name = refused_name(message);
    if (sql_part_is_empty(name))
        return 0;
    while (at < end) {
        struct sql_token token = sql_token_next(&at, end);
        if (token.kind != SQL_WORD || token.size != name.size ||
            strncasecmp(token.text, name.text, name.size) != 0 || !is_empty_list(at, end, &after))
            continue;
        rope_add(ret, rope, (size_t)(copied - sql), (size_t)(at - sql));
        copied = at = after;
    }
    if (copied == sql)
        return 0;
    rope_add(ret, rope, (size_t)(copied - sql), rope->sql.size);
    return rope_check(ret) < 0 ? -1 : 1;
}
