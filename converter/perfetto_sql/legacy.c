// SPDX-License-Identifier: Apache-2.0
//
// Older spellings of PerfettoSQL, which are functions: SELECT CREATE_FUNCTION('f(x INT)', 'INT',
// 'SELECT $x'). mmsql replaces each function by the present statement. SQLite cannot change a
// function while a statement runs. Therefore the engine, not SQLite, runs a SELECT that has only
// such a call.
#include <errno.h>
#include <sqlite3.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/perfetto_sql/engine.h"
#include "converter/perfetto_sql/engine_state.h"
#include "converter/perfetto_sql/token.h"

#define ARGUMENTS_MAX 3

static int define(struct sql_engine *engine, const char *format, const char *const *arguments)
{
    char *sql = sqlite3_mprintf(format, arguments[0], arguments[1], arguments[2]);
    const struct sql_text *text = sql ? sql_engine_text(engine, "function's text", sql) : NULL;
    sqlite3_stmt *statement = NULL;
    size_t at = 0;
    sqlite3_free(sql);
    if (!text)
        return engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory");
    struct sql_piece here = engine->here;
    here.call = 0;
    int r = sql_engine_next(engine, text, &at, &statement);
    sqlite3_finalize(statement);
    engine->here = here;
    if (r < 0 && engine->error.size) {
        strbuf_add_str(&engine->error, "\n  which is made here:");
        macros_trace(&engine->macros, &engine->error, here);
    }
    return r < 0 ? r : 0;
}

static int create_scalar(struct sql_engine *engine, const char *const *arguments)
{
    return define(engine, "CREATE OR REPLACE PERFETTO FUNCTION %s RETURNS %s AS %s", arguments);
}

static int create_table(struct sql_engine *engine, const char *const *arguments)
{
    return define(engine, "CREATE OR REPLACE PERFETTO FUNCTION %s RETURNS TABLE(%s) AS %s",
                  arguments);
}

static int memoize(struct sql_engine *engine, const char *const *arguments)
{
    if (scalar_memoize(engine, arguments[0]))
        return 0;
    return engine_fail(engine, -EINVAL, NULL, NULL,
                       "EXPERIMENTAL_MEMOIZE: there is no function %s with one LONG argument",
                       arguments[0]);
}

static int import(struct sql_engine *engine, const char *const *arguments)
{
    return sql_engine_include(engine, arguments[0]);
}

static const struct legacy {
    const char *name;
    int n_arguments;
    int (*run)(struct sql_engine *engine, const char *const *arguments);
} legacies[] = {
    {"create_function", 3, create_scalar},
    {"create_view_function", 3, create_table},
    {"experimental_memoize", 1, memoize},
    {"import", 1, import},
};

static void call(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const struct legacy_of *of = sqlite3_user_data(context);
    const char *arguments[ARGUMENTS_MAX] = {NULL};
    for (int i = 0; i < argc && i < ARGUMENTS_MAX; i++) {
        arguments[i] = (const char *)sqlite3_value_text(argv[i]);
        if (!arguments[i]) {
            sqlite3_result_error(context, "the arguments must be texts", -1);
            return;
        }
    }
    if (of->legacy->run(of->engine, arguments) < 0)
        sqlite3_result_error(context, sql_engine_error(of->engine), -1);
}

// Functions of trace_processor that mmsql leaves out, and their replacements.
static const struct refused {
    const char *name, *why;
} refused[] = {
    {"run_metric",
     "RUN_METRIC: mmsql has no metrics; the modules of the library have the same data "
     "(INCLUDE PERFETTO MODULE; 'mmsql tables' lists the modules)"},
    {"export_json", "EXPORT_JSON: SQL writes no file; 'mmsql query --json' prints rows as JSON"},
};

static void refuse(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc, (void)argv;
    const struct refused *function = sqlite3_user_data(context);
    sqlite3_result_error(context, function->why, -1);
}

int legacy_register(struct sql_engine *engine)
{
    _Static_assert(ELEMENTS(legacies) == LEGACY_N, "one for each function");
    int code = SQLITE_OK;
    for (size_t i = 0; i < ELEMENTS(legacies) && code == SQLITE_OK; i++) {
        engine->legacies[i] = (struct legacy_of){engine, &legacies[i]};
        code = sqlite3_create_function_v2(engine->handle, legacies[i].name, legacies[i].n_arguments,
                                          SQLITE_UTF8 | SQLITE_DIRECTONLY, &engine->legacies[i],
                                          call, NULL, NULL, NULL);
    }
    for (size_t i = 0; i < ELEMENTS(refused) && code == SQLITE_OK; i++)
        code = sqlite3_create_function_v2(engine->handle, refused[i].name, -1,
                                          SQLITE_UTF8 | SQLITE_DIRECTONLY, (void *)&refused[i],
                                          refuse, NULL, NULL, NULL);
    return code;
}

// A statement that has only one call, with texts as arguments.
struct legacy_call {
    const struct legacy *legacy; // NULL: the statement is not such a call
    struct sql_token arguments[ARGUMENTS_MAX];
};

static struct legacy_call call_read(const char *at, const char *end)
{
    struct legacy_call none = {0}, found = {0};
    if (!sql_word_take(&at, end, "SELECT"))
        return none;
    struct sql_token name = sql_token_next(&at, end);
    for (size_t i = 0; i < ELEMENTS(legacies); i++)
        if (sql_token_is(name, legacies[i].name))
            found.legacy = &legacies[i];
    if (!found.legacy || !sql_word_take(&at, end, "("))
        return none;
    for (int i = 0; i < found.legacy->n_arguments; i++) {
        found.arguments[i] = i > 0 && !sql_word_take(&at, end, ",") ? (struct sql_token){0}
                                                                    : sql_token_next(&at, end);
        if (found.arguments[i].kind != SQL_STRING)
            return none;
    }
    bool ends = sql_word_take(&at, end, ")") && sql_token_next(&at, end).kind == SQL_END;
    return ends ? found : none;
}

// Appends the value of a text in quotes.
static void unquote(struct sql_token token, struct strbuf *ret)
{
    for (size_t i = 1; i + 1 < token.size; i++) {
        strbuf_add_char(ret, token.text[i]);
        i += token.text[i] == '\'';
    }
}

int legacy_statement(struct sql_engine *engine, const char *sql, size_t size)
{
    struct legacy_call found = call_read(sql, sql + size);
    if (!found.legacy)
        return 0;
    struct strbuf texts[ARGUMENTS_MAX] = {{0}};
    const char *arguments[ARGUMENTS_MAX] = {NULL};
    bool is_whole = true;
    for (int i = 0; i < found.legacy->n_arguments; i++) {
        unquote(found.arguments[i], &texts[i]);
        is_whole = is_whole && !texts[i].failed;
        arguments[i] = texts[i].text ? texts[i].text : "";
    }
    int r = is_whole ? found.legacy->run(engine, arguments)
                     : engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory");
    for (int i = 0; i < ARGUMENTS_MAX; i++)
        strbuf_done(&texts[i]);
    return r < 0 ? r : 1;
}
