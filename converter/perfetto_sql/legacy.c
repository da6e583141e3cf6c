// SPDX-License-Identifier: Apache-2.0
//
// Older spellings of PerfettoSQL, which are functions: SELECT CREATE_FUNCTION('f(x INT)', 'INT',
// 'SELECT $x'). Each becomes the statement of today.
#include <sqlite3.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/perfetto_sql/engine_state.h"

static void fail(sqlite3_context *context, const char *why)
{
    sqlite3_result_error(context, why, -1);
}

static void run(sqlite3_context *context, const char *format, sqlite3_value **argv)
{
    struct sql_engine *engine = sqlite3_user_data(context);
    char *sql = sqlite3_mprintf(format, sqlite3_value_text(argv[0]), sqlite3_value_text(argv[1]),
                                sqlite3_value_text(argv[2]));
    const struct sql_text *text = sql ? sql_engine_text(engine, "function's text", sql) : NULL;
    sqlite3_stmt *statement = NULL;
    size_t at = 0;
    sqlite3_free(sql);
    if (!text)
        sqlite3_result_error_nomem(context);
    else if (sql_engine_next(engine, text, &at, &statement) < 0)
        fail(context, sql_engine_error(engine));
    sqlite3_finalize(statement);
}

static void create_scalar(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    run(context, "CREATE OR REPLACE PERFETTO FUNCTION %s RETURNS %s AS %s", argv);
}

static void create_table(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    run(context, "CREATE OR REPLACE PERFETTO FUNCTION %s RETURNS TABLE(%s) AS %s", argv);
}

static void memoize(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct sql_engine *engine = sqlite3_user_data(context);
    const char *name = (const char *)sqlite3_value_text(argv[0]);
    if (!name || !scalar_memoize(engine, name))
        fail(context, "EXPERIMENTAL_MEMOIZE: there is no function of this name with one argument");
}

static void import(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct sql_engine *engine = sqlite3_user_data(context);
    const char *name = (const char *)sqlite3_value_text(argv[0]);
    if (!name || sql_engine_include(engine, name) < 0)
        fail(context, name ? sql_engine_error(engine) : "IMPORT: the module's name is missing");
}

int legacy_register(struct sql_engine *engine)
{
    static const struct {
        const char *name;
        int n_arguments;
        void (*call)(sqlite3_context *context, int argc, sqlite3_value **argv);
    } functions[] = {
        {"create_function", 3, create_scalar},
        {"create_view_function", 3, create_table},
        {"experimental_memoize", 1, memoize},
        {"import", 1, import},
    };
    int code = SQLITE_OK;
    for (size_t i = 0; i < ELEMENTS(functions) && code == SQLITE_OK; i++)
        code = sqlite3_create_function_v2(engine->handle, functions[i].name,
                                          functions[i].n_arguments, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                          engine, functions[i].call, NULL, NULL, NULL);
    return code;
}
