// SPDX-License-Identifier: Apache-2.0
//
// CREATE PERFETTO FUNCTION. A function that returns one value is a function of SQLite (scalar.c); a
// function that returns a table is a virtual table, whose hidden columns are the arguments.
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/functions/functions.h"
#include "converter/perfetto_sql/create.h"
#include "converter/perfetto_sql/token.h"
#include "converter/tables/statement.h"

static bool is_table(const struct sql_definition *definition)
{
    return part_is(definition->returns, "TABLE");
}

// Returns the number of the argument `name`, from 1, or 0 if there is no such argument.
static size_t argument_find(const struct sql_definition *definition, const char *name, size_t size)
{
    for (size_t i = definition->arguments.n; i-- > 0;) {
        struct sql_part argument = definition->arguments.items[i].name;
        if (argument.size == size && strncmp(argument.text, name, size) == 0)
            return i + 1;
    }
    return 0;
}

// Makes a copy of the body with ?1 to ?n instead of the arguments' names.
static int body_number(struct sql_engine *engine, const struct sql_rope *rope,
                       const struct sql_definition *definition, struct sql_rope *ret)
{
    const char *at = definition->body.text, *end = at + definition->body.size, *copied = at;
    while (at < end) {
        struct sql_token token = sql_token_read(at, end);
        at = token.text + token.size;
        if (token.kind != SQL_VARIABLE && !sql_token_is(token, "?"))
            continue;
        size_t n =
            *token.text == '$' ? argument_find(definition, token.text + 1, token.size - 1) : 0;
        if (n == 0)
            return engine_fail(engine, -EINVAL, rope, token.text,
                               "function %.*s: there is no argument %.*s (arguments are written "
                               "$name)",
                               PART(definition->name), (int)token.size, token.text);
        char number[24];
        snprintf(number, sizeof(number), "?%zu", n);
        struct sql_part before = {copied, (size_t)(token.text - copied)};
        rope_add_part(ret, rope, before);
        rope_add_made_at(ret, number, rope_origin(rope, (size_t)(token.text - rope->sql.text)));
        copied = at;
    }
    struct sql_part rest = {copied, (size_t)(end - copied)};
    rope_add_part(ret, rope, rest);
    return rope_check(ret);
}

static int code_fail(struct sql_engine *engine, const struct sql_definition *definition, int code)
{
    if (code == SQLITE_CONSTRAINT)
        return engine_fail(engine, -EEXIST, NULL, NULL,
                           "function %.*s: the name exists already (CREATE OR REPLACE)",
                           PART(definition->name));
    return engine_fail(engine, code == SQLITE_NOMEM ? -ENOMEM : -EINVAL, NULL, NULL,
                       "function %.*s: %s", PART(definition->name),
                       code == SQLITE_RANGE  ? "too many arguments"
                       : code == SQLITE_BUSY ? "it runs, so it cannot be replaced"
                                             : sqlite3_errmsg(engine->handle));
}

// The place of the SQL of a function that returns a table, for errors.
struct table_call {
    struct sql_engine *engine; // borrowed
    struct sql_piece body;
    char name[];
};

static void on_failure(void *userdata)
{
    const struct table_call *call = userdata;
    engine_call_failed(call->engine, call->name, call->body);
}

static int table_function_make(struct sql_engine *engine, const struct sql_definition *definition,
                               const char *name, const char *sql, struct sql_piece body)
{
    size_t n = definition->arguments.n;
    CLEANUP(freep) char **names = calloc(n + 1, sizeof(*names));
    struct table_call *call = malloc(sizeof(*call) + strlen(name) + 1);
    bool is_whole = names && call;
    for (size_t i = 0; i < n && is_whole; i++)
        is_whole = (names[i] = engine_name(definition->arguments.items[i].name));
    int code = SQLITE_NOMEM;
    if (is_whole) {
        *call = (struct table_call){engine, body};
        memcpy(call->name, name, strlen(name) + 1);
        const struct table_function_extra extra = {(const char *const *)names, on_failure, call};
        code = table_function_add_extra(engine->handle, name, sql, (int)n, &extra);
    } else {
        free(call);
    }
    for (size_t i = 0; i < n && names; i++)
        free(names[i]);
    if (code == SQLITE_OK && names_add(&engine->table_functions, name) < 0)
        code = SQLITE_NOMEM;
    return code == SQLITE_OK ? 0 : code_fail(engine, definition, code);
}

// Frees the name: drops a table that the function replaces. Fails if another object has the name.
static int name_free(struct sql_engine *engine, const struct sql_definition *definition,
                     const char *name)
{
    enum relation found;
    int r = relation_kind(engine, definition->name, &found);
    if (r < 0 || found == RELATION_NONE || (found == RELATION_FUNCTION && definition->replaces))
        return r;
    if (found == RELATION_FUNCTION)
        return code_fail(engine, definition, SQLITE_CONSTRAINT);
    if (found == RELATION_VIEW || !definition->replaces)
        return relation_is_other(engine, definition->name, found);
    names_remove(&engine->kept_tables, name);
    return engine_run(engine, "DROP TABLE temp.%.*s", PART(definition->name));
}

// Checks that the SQL has the columns that the function declares, in the same order.
static int returned_check(struct sql_engine *engine, const struct sql_rope *rope,
                          const struct sql_definition *definition, sqlite3_stmt *statement)
{
    int n = sqlite3_column_count(statement);
    if (n != (int)definition->columns.n)
        return engine_fail(engine, -EINVAL, NULL, NULL,
                           "function %.*s: its SQL returns %d columns, but %zu are declared",
                           PART(definition->name), n, definition->columns.n);
    for (int i = 0; i < n; i++) {
        const char *name = sqlite3_column_name(statement, i);
        struct sql_part declared = definition->columns.items[i].name;
        if (!name)
            return -ENOMEM;
        if (declared.size != strlen(name) || strncmp(declared.text, name, declared.size) != 0)
            return engine_fail(engine, -EINVAL, rope, declared.text,
                               "function %.*s: column %d of its SQL is %s, but %.*s is declared",
                               PART(definition->name), i + 1, name, PART(declared));
    }
    return 0;
}

static int table_function_create(struct sql_engine *engine, const struct sql_rope *rope,
                                 const struct sql_definition *definition, const char *name)
{
    CLEANUP(rope_done) struct sql_rope body = {0};
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    int r = body_number(engine, rope, definition, &body);
    struct sql_piece here = here_move(engine, rope, definition->body);
    struct sql_piece place = engine->here;
    if (r == 0)
        r = engine_prepare(engine, &body, &statement);
    engine->here = here;
    if (r == 0)
        r = returned_check(engine, rope, definition, statement);
    if (r == 0)
        r = name_free(engine, definition, name);
    return r == 0 ? table_function_make(engine, definition, name, sqlite3_sql(statement), place)
                  : r;
}

static int delegate_table_create(struct sql_engine *engine, const struct sql_definition *definition,
                                 const char *name, const struct sql_rope *sql)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    int r = engine_prepare(engine, sql, &statement);
    if (r == 0)
        r = name_free(engine, definition, name);
    return r == 0 ? table_function_make(engine, definition, name, sql->sql.text, engine->here) : r;
}

// Fails if there is no function of the name. The number of arguments is not checked, because the
// definition may take any number.
static int delegate_check(struct sql_engine *engine, const struct sql_rope *rope,
                          const struct sql_definition *definition)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("SELECT %.*s(NULL)", PART(definition->delegate));
    int code = sql ? sqlite3_prepare_v2(engine->handle, sql, -1, &statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (code == SQLITE_NOMEM)
        return -ENOMEM;
    if (code == SQLITE_OK || !str_starts_with(sqlite3_errmsg(engine->handle), "no such function"))
        return 0;
    return engine_fail(engine, -EINVAL, rope, definition->delegate.text,
                       "function %.*s: there is no function %.*s", PART(definition->name),
                       PART(definition->delegate));
}

// Makes the SQL of a function that delegates: SELECT g(?1, ?2), or SELECT * FROM g(?1, ?2). For any
// number of arguments, the SQL ends after the opening parenthesis.
static int delegate_create(struct sql_engine *engine, const struct sql_rope *rope,
                           const struct sql_definition *definition, const char *name)
{
    CLEANUP(rope_done) struct sql_rope sql = {0};
    bool is_variadic = definition_is_variadic(definition);
    struct scalar *scalar = NULL;
    strbuf_addf(&sql.sql, "SELECT %s%.*s(", is_table(definition) ? "* FROM " : "",
                PART(definition->delegate));
    for (size_t i = 0; i < definition->arguments.n && !is_variadic; i++)
        strbuf_addf(&sql.sql, "%s?%zu", i ? ", " : "", i + 1);
    if (!is_variadic)
        strbuf_add_char(&sql.sql, ')');
    if (sql.sql.failed)
        return -ENOMEM;
    if (is_table(definition))
        return delegate_table_create(engine, definition, name, &sql);
    int r = is_variadic ? delegate_check(engine, rope, definition) : 0;
    if (r < 0)
        return r;
    int code = scalar_add(engine, definition, &sql, &scalar);
    return code == SQLITE_OK ? scalar_prepare(engine, scalar) : code_fail(engine, definition, code);
}

static int arguments_check(struct sql_engine *engine, const struct sql_rope *rope,
                           const struct sql_definition *definition)
{
    size_t n = definition->arguments.n;
    int r = types_check(engine, rope, &definition->arguments);
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct sql_field *field = &definition->arguments.items[i];
        if (field->is_variadic && (i + 1 < n || sql_part_is_empty(definition->delegate)))
            r = engine_fail(engine, -EINVAL, rope, field->name.text,
                            "function %.*s: only the last argument, and only with DELEGATES TO, "
                            "takes any number of values",
                            PART(definition->name));
    }
    if (r == 0)
        r = types_check(engine, rope, &definition->columns);
    if (r == 0 && !is_table(definition) && sql_type_read(definition->returns) == SQL_TYPE_UNKNOWN)
        r = engine_fail(engine, -EINVAL, rope, definition->returns.text,
                        "function %.*s: there is no type %.*s", PART(definition->name),
                        PART(definition->returns));
    return r;
}

int function_create(struct sql_engine *engine, const struct sql_rope *rope,
                    const struct sql_definition *definition)
{
    CLEANUP(rope_done) struct sql_rope body = {0};
    CLEANUP(freep) char *name = engine_name(definition->name);
    struct scalar *scalar = NULL;
    if (!name)
        return -ENOMEM;
    int r = arguments_check(engine, rope, definition);
    if (r < 0)
        return r;
    if (!sql_part_is_empty(definition->delegate))
        return delegate_create(engine, rope, definition, name);
    if (is_table(definition))
        return table_function_create(engine, rope, definition, name);
    rope_add_part(&body, rope, definition->body);
    if (rope_check(&body) < 0)
        return -ENOMEM;
    int code = scalar_add(engine, definition, &body, &scalar);
    // The function may call itself, so it is added before its SQL is compiled.
    return code == SQLITE_OK ? scalar_prepare(engine, scalar) : code_fail(engine, definition, code);
}
