// SPDX-License-Identifier: Apache-2.0
//
// CREATE PERFETTO statements become SQLite's own statements. Tables and views become temporary. The
// SQL of a function is registered under the function's name, with ?numbers instead of $arguments.
// converter/sql/modules/ has the small modules of Perfetto's library that need tables alone.
#include "converter/cli/dialect.h"

#include <ctype.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/cli/say.h"
#include "converter/functions/functions.h"
#include "converter/sql/sql.h"

#define NAME_BYTES    128
#define ARGUMENTS_MAX 16

struct signature {
    char name[NAME_BYTES];
    char arguments[ARGUMENTS_MAX][NAME_BYTES];
    int n_arguments;
    bool is_table;
};

static int failed(const char *what, const char *why)
{
    say("%s: %s", what, why);
    return -1;
}

const char *sql_blanks_skip(const char *at)
{
    for (;;) {
        if (isspace((unsigned char)*at)) {
            at++;
        } else if (at[0] == '-' && at[1] == '-') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        } else {
            return at;
        }
    }
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool word_eat(const char **cursor, const char *word)
{
    const char *at = sql_blanks_skip(*cursor);
    size_t n = strlen(word);
    if (strncasecmp(at, word, n) != 0 || (is_name(word[0]) && is_name(at[n])))
        return false;
    *cursor = at + n;
    return true;
}

// Reads a name. The name of a module may have dots and wildcards.
static bool name_eat(const char **cursor, bool is_module, char *ret)
{
    const char *at = sql_blanks_skip(*cursor);
    size_t n = 0;
    while (is_name(at[n]) || (is_module && (at[n] == '.' || at[n] == '*')))
        n++;
    if (!n || n >= NAME_BYTES)
        return false;
    memcpy(ret, at, n);
    ret[n] = '\0';
    *cursor = at + n;
    return true;
}

// Returns the text after one token: a quoted text or name, blanks and comments, or one character.
static const char *token_skip(const char *at)
{
    const char *behind = sql_blanks_skip(at);
    if (behind != at)
        return behind;
    if (*at == '\'' || *at == '"' || *at == '`') {
        const char *end = strchr(at + 1, *at);
        return end ? end + 1 : at + strlen(at);
    }
    return *at ? at + 1 : at;
}

// Returns the text up to the `;` of the statement, and moves *cursor behind the `;`. The caller
// frees the text.
static char *body_take(const char **cursor)
{
    const char *begin = *cursor, *at = begin;
    while (*at && *at != ';')
        at = token_skip(at);
    *cursor = *at ? at + 1 : at;
    return strndup(begin, (size_t)(at - begin));
}

// Moves *cursor behind a list in parentheses. False: the list is missing or not closed.
static bool parentheses_skip(const char **cursor)
{
    const char *at = sql_blanks_skip(*cursor);
    int depth = 0;
    if (*at != '(')
        return false;
    do {
        depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
        at = token_skip(at);
    } while (depth && *at);
    *cursor = at;
    return depth == 0;
}

static int sql_execute(sqlite3 *handle, const char *what, const char *sql)
{
    if (sqlite3_exec(handle, sql, NULL, NULL, NULL) == SQLITE_OK)
        return 1;
    return failed(what, sqlite3_errmsg(handle));
}

static int include_run(sqlite3 *handle, const char **cursor)
{
    char name[NAME_BYTES];
    if (!name_eat(cursor, true, name))
        return failed("INCLUDE PERFETTO MODULE", "the module's name is missing");
    word_eat(cursor, ";");
    for (const struct sql_module *module = sql_modules; module->name; module++)
        if (strcasecmp(module->name, name) == 0)
            return sql_execute(handle, name, module->sql);
    fprintf(stderr, "mmsql: %s: this module of Perfetto's library is not built in; there are",
            name);
    for (const struct sql_module *module = sql_modules; module->name; module++)
        fprintf(stderr, "%s %s", module == sql_modules ? "" : ",", module->name);
    fprintf(stderr, "\n");
    return -1;
}

static int relation_run(sqlite3 *handle, const char **cursor, const char *kind, bool replace)
{
    char name[NAME_BYTES];
    if (!name_eat(cursor, false, name))
        return failed("CREATE PERFETTO", "the name is missing");
    parentheses_skip(cursor); // the schema: SQLite finds the schema itself
    if (!word_eat(cursor, "AS"))
        return failed(name, "AS is expected");
    CLEANUP(freep) char *body = body_take(cursor);
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    if (replace)
        strbuf_addf(&sql, "DROP %s IF EXISTS temp.%s;", kind, name);
    strbuf_addf(&sql, "CREATE TEMP %s %s AS %s", kind, name, body ? body : "");
    return sql.failed || !body ? failed(name, "no memory") : sql_execute(handle, name, sql.text);
}

static bool signature_read(const char **cursor, struct signature *ret)
{
    *ret = (struct signature){0};
    if (!name_eat(cursor, false, ret->name) || !word_eat(cursor, "("))
        return false;
    while (!word_eat(cursor, ")")) {
        char type[NAME_BYTES];
        if (ret->n_arguments == ARGUMENTS_MAX ||
            !name_eat(cursor, false, ret->arguments[ret->n_arguments++]) ||
            !name_eat(cursor, false, type))
            return false;
        parentheses_skip(cursor); // of types like ID(table.column)
        if (!word_eat(cursor, ",") && *sql_blanks_skip(*cursor) != ')')
            return false;
    }
    if (!word_eat(cursor, "RETURNS"))
        return false;
    ret->is_table = word_eat(cursor, "TABLE");
    char type[NAME_BYTES];
    if (!ret->is_table && !name_eat(cursor, false, type))
        return false;
    return parentheses_skip(cursor) || !ret->is_table;
}

// Replaces each $argument by ?n. The caller frees the text.
static char *arguments_number(const char *body, const struct signature *signature)
{
    struct strbuf sql = {0};
    while (*body) {
        const char *end = *body == '$' ? body + 1 : token_skip(body);
        int found = -1;
        while (*body == '$' && is_name(*end))
            end++;
        for (int i = 0; *body == '$' && i < signature->n_arguments; i++)
            if (strlen(signature->arguments[i]) == (size_t)(end - body - 1) &&
                strncasecmp(signature->arguments[i], body + 1, (size_t)(end - body - 1)) == 0)
                found = i;
        if (found >= 0)
            strbuf_addf(&sql, "?%d", found + 1);
        else
            strbuf_add(&sql, body, (size_t)(end - body));
        body = end;
    }
    return strbuf_steal(&sql);
}

static void scalar_call(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    sqlite3 *handle = sqlite3_context_db_handle(context);
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle, sqlite3_user_data(context), -1, &statement, NULL);
    for (int i = 0; i < argc && code == SQLITE_OK; i++)
        sqlite3_bind_value(statement, i + 1, argv[i]);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        sqlite3_result_value(context, sqlite3_column_value(statement, 0));
    else if (code != SQLITE_DONE)
        sqlite3_result_error(context, sqlite3_errmsg(handle), -1);
    sqlite3_finalize(statement);
}

static int function_run(sqlite3 *handle, const char **cursor)
{
    struct signature signature;
    if (!signature_read(cursor, &signature))
        return failed("CREATE PERFETTO FUNCTION",
                      "NAME(ARGUMENT TYPE, ...) RETURNS TYPE, or RETURNS TABLE(...), is expected");
    if (!word_eat(cursor, "AS"))
        return failed(signature.name, "AS is expected");
    CLEANUP(freep) char *body = body_take(cursor);
    CLEANUP(freep) char *sql = body ? arguments_number(body, &signature) : NULL;
    sqlite3_stmt *statement = NULL;
    if (!sql)
        return failed(signature.name, "no memory");
    int code = sqlite3_prepare_v2(handle, sql, -1, &statement, NULL);
    sqlite3_finalize(statement);
    if (code == SQLITE_OK && signature.is_table)
        code = table_function_add(handle, signature.name, sql, signature.n_arguments);
    else if (code == SQLITE_OK)
        code = sqlite3_create_function_v2(handle, signature.name, signature.n_arguments,
                                          SQLITE_UTF8, STEAL(sql), scalar_call, NULL, NULL, free);
    return code == SQLITE_OK ? 1 : failed(signature.name, sqlite3_errmsg(handle));
}

// Runs plain CREATE TABLE, VIEW or VIRTUAL TABLE as a temporary object, because a query must not
// change the database. `at` is behind CREATE. Returns 0 for other SQL and for names with a schema.
static int plain_run(sqlite3 *handle, const char **cursor, const char *at)
{
    char name[NAME_BYTES];
    bool is_virtual = word_eat(&at, "VIRTUAL"), is_view = !is_virtual && word_eat(&at, "VIEW");
    if (!is_view && !word_eat(&at, "TABLE"))
        return 0;
    bool careful = word_eat(&at, "IF") && word_eat(&at, "NOT") && word_eat(&at, "EXISTS");
    if (!name_eat(&at, false, name) || *at == '.')
        return 0;
    CLEANUP(freep) char *body = body_take(&at);
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    strbuf_addf(&sql, "CREATE %s %s temp.\"%s\" %s",
                is_virtual ? "VIRTUAL TABLE"
                : is_view  ? "VIEW"
                           : "TABLE",
                careful ? "IF NOT EXISTS" : "", name, body ? body : "");
    if (sql.failed || !body)
        return failed(name, "no memory");
    *cursor = at;
    return sql_execute(handle, name, sql.text);
}

int dialect_run(struct sqlite3 *handle, const char **cursor)
{
    const char *at = *cursor;
    int r = 0;
    bool replace = false;
    if (word_eat(&at, "INCLUDE") && word_eat(&at, "PERFETTO") && word_eat(&at, "MODULE")) {
        r = include_run(handle, &at);
        *cursor = at;
        return r;
    }
    at = *cursor;
    if (!word_eat(&at, "CREATE"))
        return 0;
    if (word_eat(&at, "OR"))
        replace = word_eat(&at, "REPLACE");
    if (!word_eat(&at, "PERFETTO"))
        return replace ? 0 : plain_run(handle, cursor, at);
    if (word_eat(&at, "TABLE"))
        r = relation_run(handle, &at, "TABLE", replace);
    else if (word_eat(&at, "VIEW"))
        r = relation_run(handle, &at, "VIEW", replace);
    else if (word_eat(&at, "FUNCTION"))
        r = function_run(handle, &at);
    else
        r = failed("CREATE PERFETTO", "only TABLE, VIEW and FUNCTION are known");
    *cursor = at;
    return r;
}
