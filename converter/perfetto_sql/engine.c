// SPDX-License-Identifier: Apache-2.0
#include "converter/perfetto_sql/engine.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/perfetto_sql/engine_state.h"
#include "converter/perfetto_sql/packages.h"
#include "converter/perfetto_sql/token.h"

#define INCLUDE_DEPTH  100
#define CALLS_SHOWN    8  // of functions that call each other
#define INTERNAL_TRIES 16 // internal tables behind the views of one statement

static int error_end(struct sql_engine *engine, int r)
{
    if (engine->error.failed) {
        strbuf_done(&engine->error);
        return -ENOMEM;
    }
    return r;
}

static void calls_forget(struct sql_engine *engine)
{
    strbuf_clear(&engine->calls);
    engine->n_calls = 0;
}

int engine_fail(struct sql_engine *engine, int r, const struct sql_rope *rope, const char *at,
                const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    strbuf_clear(&engine->error);
    strbuf_add_str(&engine->error, text);
    if (engine->calls.size)
        strbuf_add(&engine->error, engine->calls.text, engine->calls.size);
    struct sql_piece place = {0};
    if (rope && at)
        place = rope_origin(rope, (size_t)(at - rope->sql.text));
    macros_trace(&engine->macros, &engine->error, place.text ? place : engine->here);
    calls_forget(engine);
    return error_end(engine, r);
}

void engine_call_failed(struct sql_engine *engine, const char *name, struct sql_piece place)
{
    place.call = 0; // the number belongs to the macro calls of another statement
    if (engine->n_calls++ >= CALLS_SHOWN)
        return;
    macros_trace(&engine->macros, &engine->calls, place);
    strbuf_addf(&engine->calls, "\n  in function %s, called here:", name);
    if (engine->calls.failed)
        calls_forget(engine);
}

// Returns the size of the text without blanks and comments at its end.
static size_t tokens_size(const char *sql)
{
    const char *at = sql, *end = sql + strlen(sql), *last = sql;
    while (sql_token_next(&at, end).kind != SQL_END)
        last = at;
    return (size_t)(last - sql);
}

int engine_fail_sqlite(struct sql_engine *engine, const struct sql_rope *rope, const char *at)
{
    static const char incomplete[] = "incomplete input";
    int offset = -1, code = sqlite3_errcode(engine->handle);
    const char *message = sqlite3_errmsg(engine->handle);
    int r = code == SQLITE_NOMEM ? -ENOMEM : code == SQLITE_INTERRUPT ? -EINTR : -EINVAL;
#if SQLITE_VERSION_NUMBER >= 3038000
    offset = sqlite3_error_offset(engine->handle);
#endif
    if (at && str_eq(message, incomplete)) // SQLite gives the offset 0
        offset = (int)tokens_size(at);
    // An offset beyond the text belongs to the text of a view or function.
    if (!at || offset < 0 || (size_t)offset > strlen(at))
        offset = -1;
    const char *missing = prelude_missing(engine, message);
    return engine_fail(engine, r, offset < 0 ? NULL : rope, offset < 0 ? NULL : at + offset,
                       missing ? "%s, which is made of %s: mmsql does not have that table" : "%s",
                       message, missing);
}

// Prepares a rope that calls tables like functions. SQLite has just refused `rope`.
static int prepare_without_calls(struct sql_engine *engine, const struct sql_rope *rope,
                                 struct sqlite3_stmt **ret)
{
    CLEANUP(rope_done) struct sql_rope changed = {0};
    int r = table_calls_replace(rope, sqlite3_errmsg(engine->handle), &changed);
    if (r < 0)
        return engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory");
    return r > 0 ? engine_prepare(engine, &changed, ret)
                 : engine_fail_sqlite(engine, rope, rope->sql.text);
}

int engine_prepare(struct sql_engine *engine, const struct sql_rope *rope,
                   struct sqlite3_stmt **ret)
{
    sqlite3_stmt *statement = NULL;
    if (rope->sql.failed || !rope->sql.size)
        return engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory");
    int r, code = sqlite3_prepare_v2(engine->handle, rope->sql.text, -1, &statement, NULL);
    for (int n = 0; n < INTERNAL_TRIES && code != SQLITE_OK; n++) {
        r = prelude_supply(engine, rope->sql.text);
        if (r <= 0)
            return r < 0 ? r : prepare_without_calls(engine, rope, ret);
        code = sqlite3_prepare_v2(engine->handle, rope->sql.text, -1, &statement, NULL);
    }
    if (code != SQLITE_OK)
        return engine_fail_sqlite(engine, rope, rope->sql.text);
    *ret = statement;
    return 0;
}

// Runs a statement to its end. If `what` is not NULL, rows are an error; `what` is the statement's
// name in the message.
static int engine_step(struct sql_engine *engine, struct sqlite3_stmt *statement, const char *what)
{
    int code = sqlite3_step(statement), r = 0;
    if (code == SQLITE_ROW && what && !sql_is_silent(statement))
        r = engine_fail(engine, -EINVAL, NULL, NULL, "%s returns rows: a module only defines",
                        what);
    while (r == 0 && code == SQLITE_ROW)
        code = sqlite3_step(statement);
    if (r == 0 && code != SQLITE_DONE)
        r = engine_fail_sqlite(engine, NULL, NULL);
    sqlite3_finalize(statement);
    return r;
}

int engine_run_rope(struct sql_engine *engine, const struct sql_rope *rope)
{
    sqlite3_stmt *statement = NULL;
    int r = engine_prepare(engine, rope, &statement);
    return r == 0 && statement ? engine_step(engine, statement, NULL) : r;
}

int engine_run_text(struct sql_engine *engine, const struct sql_text *text, const char *what)
{
    struct sql_piece here = engine->here;
    here.call = 0; // the text has other macro calls
    size_t at = 0;
    int r;
    do {
        sqlite3_stmt *statement = NULL;
        r = sql_engine_next(engine, text, &at, &statement);
        if (r > 0 && statement)
            r = engine_step(engine, statement, what) < 0 ? -EINVAL : 1;
    } while (r > 0);
    engine->here = here;
    return r;
}

bool sql_is_silent(sqlite3_stmt *statement)
{
    static const char *const calls[] = {"create_function(", "create_view_function(",
                                        "experimental_memoize(", "import("};
    if (sqlite3_column_count(statement) != 1)
        return false;
    const char *name = sqlite3_column_name(statement, 0);
    bool is = name && strcasecmp(name, "suppress_query_output") == 0;
    for (size_t i = 0; i < ELEMENTS(calls) && name; i++)
        is |= strncasecmp(name, calls[i], strlen(calls[i])) == 0;
    return is;
}

int engine_run(struct sql_engine *engine, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *sql = sqlite3_vmprintf(format, arguments);
    va_end(arguments);
    int code = sql ? sqlite3_exec(engine->handle, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return code == SQLITE_OK ? 0 : engine_fail_sqlite(engine, NULL, NULL);
}

const struct sql_text *sql_engine_text(struct sql_engine *engine, const char *name, const char *sql)
{
    struct sql_text *text = malloc(sizeof(*text));
    if (!text)
        return NULL;
    *text = (struct sql_text){strdup(name), strdup(sql), strlen(sql)};
    if (text->name && text->sql && sql_text_vec_push(&engine->texts, text) == 0)
        return text;
    free(text->name);
    free(text->sql);
    free(text);
    return NULL;
}

// Keeps the error of a module: a second run would fail otherwise, because some objects of the
// module exist already.
static int module_fail(struct sql_engine *engine, struct sql_package_module *module, int r)
{
    if (r == -EINVAL && !module->failure && engine->error.size)
        module->failure = strdup(engine->error.text);
    if (engine->here.text) {
        strbuf_add_str(&engine->error, "\n  included here:");
        macros_trace(&engine->macros, &engine->error, engine->here);
    }
    return error_end(engine, r);
}

static int module_run(struct sql_engine *engine, struct sql_package_module *module)
{
    CLEANUP(strbuf_done) struct strbuf name = {0};
    if (module->failure) {
        strbuf_clear(&engine->error);
        strbuf_add_str(&engine->error, module->failure);
        return module_fail(engine, module, -EINVAL);
    }
    if (module->is_running)
        return engine_fail(engine, -ELOOP, NULL, NULL,
                           "INCLUDE PERFETTO MODULE: %s is included by a module that it includes",
                           module->name);
    strbuf_addf(&name, "module %s", module->name);
    const struct sql_text *text =
        name.failed ? NULL : sql_engine_text(engine, name.text, module->sql);
    if (!text)
        return engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory");
    const struct sql_package_module *outer = engine->module;
    engine->module = module;
    module->is_running = true;
    int r = engine_run_text(engine, text, name.text);
    module->is_running = false;
    engine->module = outer;
    module->is_included = r == 0;
    return r == 0 ? 0 : module_fail(engine, module, r);
}

static bool is_wild(const char *pattern, size_t size)
{
    return size > 0 && pattern[size - 1] == '*';
}

// Includes the modules of a pattern. The pattern "*" leaves out modules that read an internal table
// of trace_processor that mmsql lacks.
static int include(struct sql_engine *engine, const char *pattern, size_t size, bool *ret_found)
{
    bool is_any = size == 1 && *pattern == '*';
    size_t n = size - is_wild(pattern, size);
    int r = 0;
    if (engine->depth == INCLUDE_DEPTH)
        return engine_fail(engine, -ELOOP, NULL, NULL, "more than %d modules include each other",
                           INCLUDE_DEPTH);
    engine->depth++;
    for (size_t i = 0; i < engine->packages->modules.n && r == 0; i++) {
        struct sql_package_module *module = &engine->packages->modules.items[i];
        if (!module_matches(module, pattern, size) || strncmp(module->name, pattern, n) != 0)
            continue;
        *ret_found = true;
        if (!module->is_included)
            r = module_run(engine, module);
        if (r == -EINVAL && is_any && prelude_lacks(engine))
            r = 0;
    }
    engine->depth--;
    return r;
}

// Returns whether there is a package with the first name of the pattern.
static bool package_is_there(const struct sql_engine *engine, const char *pattern, size_t size)
{
    const char *dot = memchr(pattern, '.', size);
    size_t n = dot ? (size_t)(dot - pattern) + 1 : 0;
    bool found = size == 1 && *pattern == '*';
    vec_foreach(&engine->packages->modules, module)
        found |= n > 0 && strncmp(module->name, pattern, n) == 0;
    return found;
}

static int module_missing(struct sql_engine *engine, const struct sql_rope *rope,
                          const char *pattern, size_t size)
{
    const char *near[MODULES_NEAR_MAX];
    CLEANUP(strbuf_done) struct strbuf name = {0}, hint = {0};
    strbuf_add(&name, pattern, size);
    int n = name.failed || !size ? 0 : packages_near(engine->packages, name.text, near);
    for (int i = 0; i < n; i++)
        strbuf_addf(&hint, "%s%s", i == 0 ? "did you mean " : i + 1 < n ? ", " : " or ", near[i]);
    return engine_fail(engine, -ENOENT, rope, pattern,
                       "INCLUDE PERFETTO MODULE: there is no module %.*s (%s%sthe table "
                       "__intrinsic_stdlib_modules lists all)",
                       (int)size, pattern, hint.size ? hint.text : "", hint.size ? "? " : "");
}

static int include_checked(struct sql_engine *engine, const struct sql_rope *rope,
                           const char *pattern, size_t size)
{
    bool found = is_wild(pattern, size) && package_is_there(engine, pattern, size);
    int r = include(engine, pattern, size, &found);
    return r == 0 && !found ? module_missing(engine, rope, pattern, size) : r;
}

int sql_engine_include(struct sql_engine *engine, const char *pattern)
{
    int r = prelude_run(engine); // the pattern may mean the prelude's modules
    return r < 0 ? r : include_checked(engine, NULL, pattern, strlen(pattern));
}

static int macro_fail(struct sql_engine *engine, int r, const struct sql_text *text, const char *at,
                      const char *why)
{
    struct sql_piece place = {.text = text, .offset = (size_t)(at - text->sql)};
    engine->here = place;
    return engine_fail(engine, r, NULL, NULL, "CREATE PERFETTO MACRO: %s", why);
}

static bool is_macro_type(struct sql_part type)
{
    static const char *const types[] = {
        "Expr",     "TableOrSubquery", "ColumnName",          "ColumnNameList",
        "ExprList", "UnparenExprList", "_ProjectionFragment", "_TableNameList",
    };
    for (size_t i = 0; i < ELEMENTS(types); i++)
        if (type.size == strlen(types[i]) && strncasecmp(type.text, types[i], type.size) == 0)
            return true;
    return false;
}

static int macro_check(struct sql_engine *engine, const struct sql_text *text,
                       const struct sql_definition *definition)
{
    static const char types[] =
        "the type is not known (there are Expr, TableOrSubquery, ColumnName, ColumnNameList, "
        "ExprList, UnparenExprList, _ProjectionFragment and _TableNameList)";
    vec_foreach(&definition->arguments, argument)
        if (!is_macro_type(argument->type))
            return macro_fail(engine, -EINVAL, text, argument->type.text, types);
    if (!is_macro_type(definition->returns))
        return macro_fail(engine, -EINVAL, text, definition->returns.text, types);
    if (!definition->replaces &&
        macros_find(&engine->macros, definition->name.text, definition->name.size))
        return macro_fail(engine, -EEXIST, text, definition->name.text,
                          "there is a macro of this name already (CREATE OR REPLACE)");
    return 0;
}

// Creates a macro. The macro keeps its body without expansion: macros in the body are expanded when
// the macro is called.
static int macro_create(struct sql_engine *engine, const struct sql_text *text,
                        const struct sql_definition *definition)
{
    struct sql_macro macro = {
        .name = strndup(definition->name.text, definition->name.size),
        .arguments = calloc(definition->arguments.n + 1, sizeof(*macro.arguments)),
        .text = text,
        .begin = (size_t)(definition->body.text - text->sql),
        .end = (size_t)(definition->body.text - text->sql) + definition->body.size,
    };
    bool is_whole = macro.name && macro.arguments;
    for (size_t i = 0; is_whole && i < definition->arguments.n; i++) {
        struct sql_part name = definition->arguments.items[i].name;
        macro.arguments[macro.n] = strndup(name.text, name.size);
        is_whole = macro.arguments[macro.n++];
    }
    if (!is_whole) {
        sql_macro_done(&macro);
        return engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory");
    }
    return macros_add(&engine->macros, macro) < 0
               ? engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory")
               : 0;
}

// Runs the statement if it defines a macro; such a statement must not be expanded. Returns 1 if it
// was a definition, 0 if not, or a negative errno.
static int macro_statement(struct sql_engine *engine, const struct sql_text *text,
                           const char *begin, const char *end)
{
    CLEANUP(definition_done) struct sql_definition definition = {0};
    CLEANUP(strbuf_done) struct strbuf why = {0};
    const char *at = begin;
    int r = definition_read(begin, end, &definition, &why, &at);
    if (definition.kind != DEFINITION_MACRO)
        return 0;
    if (r == 0)
        r = macro_check(engine, text, &definition);
    else if (r == -EINVAL)
        r = macro_fail(engine, r, text, at, why.text);
    if (r == 0)
        r = macro_create(engine, text, &definition);
    return r < 0 ? r : 1;
}

static int definition_run(struct sql_engine *engine, const struct sql_rope *rope,
                          const struct sql_definition *definition)
{
    if (definition->kind == DEFINITION_INCLUDE)
        return include_checked(engine, rope, definition->name.text, definition->name.size);
    if (prelude_has(engine, definition))
        return 0;
    return prelude_forgive(engine, definition, create_run(engine, rope, definition));
}

void engine_mixed_note(struct sql_engine *engine)
{
    bool is_own = engine->module ? engine->module->is_own : engine->stage != STAGE_DONE;
    engine->is_mixed |= !is_own;
}

// The first table of CREATE PERFETTO TABLE that a statement would change.
struct change {
    struct sql_engine *engine;
    char *table; // owned; NULL: none
    bool drops;
};

static int on_action(void *userdata, int action, const char *name, const char *more,
                     const char *schema, const char *within)
{
    struct change *change = userdata;
    (void)schema, (void)within;
    const char *table =
        action == SQLITE_INSERT || action == SQLITE_UPDATE || action == SQLITE_DELETE ? name
        : action == SQLITE_ALTER_TABLE || action == SQLITE_CREATE_TEMP_INDEX ||
                action == SQLITE_CREATE_TEMP_TRIGGER
            ? more
            : NULL;
    if (action == SQLITE_DROP_TEMP_TABLE) {
        change->drops = true;
        names_remove(&change->engine->kept_tables, name);
    }
    if (!table || change->drops || change->table ||
        !names_have(&change->engine->kept_tables, table))
        return SQLITE_OK;
    change->table = strdup(table);
    return SQLITE_OK;
}

// Refuses a statement that changes a table of CREATE PERFETTO TABLE.
static int change_check(struct sql_engine *engine, const struct sql_rope *rope)
{
    struct change change = {.engine = engine};
    sqlite3_stmt *again = NULL;
    sqlite3_set_authorizer(engine->handle, on_action, &change);
    sqlite3_prepare_v2(engine->handle, rope->sql.text, -1, &again, NULL);
    sqlite3_set_authorizer(engine->handle, NULL, NULL);
    sqlite3_finalize(again);
    if (!change.table)
        return 0;
    int r =
        engine_fail(engine, -EINVAL, NULL, NULL,
                    "%s: a table of CREATE PERFETTO TABLE cannot be changed (CREATE OR REPLACE "
                    "PERFETTO TABLE makes it anew, CREATE TABLE makes a table that can be changed)",
                    change.table);
    free(change.table);
    return r;
}

static int plain_prepare(struct sql_engine *engine, const struct sql_rope *rope,
                         struct sqlite3_stmt **ret)
{
    sqlite3_stmt *statement = NULL;
    int r = engine_prepare(engine, rope, &statement);
    if (r == 0 && statement && !sqlite3_stmt_readonly(statement)) {
        engine_mixed_note(engine);
        r = engine->kept_tables.n ? change_check(engine, rope) : 0;
    }
    if (r == 0 && statement && sqlite3_column_count(statement))
        hash_grouping_prepare(engine->handle, rope, &statement);
    if (r == 0)
        *ret = statement;
    else
        sqlite3_finalize(statement);
    return r;
}

// Runs or prepares an expanded statement.
static int rope_run(struct sql_engine *engine, const struct sql_rope *rope,
                    struct sqlite3_stmt **ret)
{
    CLEANUP(definition_done) struct sql_definition definition = {0};
    CLEANUP(strbuf_done) struct strbuf why = {0};
    const char *at = rope->sql.text;
    engine->here = rope_origin(rope, (size_t)(sql_blanks_skip(at, at + rope->sql.size) - at));
    int r = definition_read(at, at + rope->sql.size, &definition, &why, &at);
    if (r == -EINVAL)
        return engine_fail(engine, r, rope, at, "%s", why.text);
    if (r < 0)
        return engine_fail(engine, r, NULL, NULL, "out of memory");
    if (definition.kind == DEFINITION_NONE) {
        r = legacy_statement(engine, rope->sql.text, rope->sql.size);
        return r > 0 ? 0 : r < 0 ? r : plain_prepare(engine, rope, ret);
    }
    return definition_run(engine, rope, &definition);
}

int sql_engine_next(struct sql_engine *engine, const struct sql_text *text, size_t *at,
                    struct sqlite3_stmt **ret)
{
    const char *end = text->sql + text->size, *begin = text->sql + *at;
    CLEANUP(strbuf_done) struct strbuf why = {0};
    CLEANUP(rope_done) struct sql_rope rope = {0};
    struct sql_piece place = {0};
    int r = prelude_run(engine);
    if (r < 0)
        return r;
    calls_forget(engine);
    while (*(begin = sql_blanks_skip(begin, end)) == ';')
        begin++;
    const char *after = sql_statement_end(begin, end);
    *at = (size_t)(after - text->sql) + (after < end);
    *ret = NULL;
    if (begin == after)
        return 0;
    r = macro_statement(engine, text, begin, after);
    if (r != 0)
        return r;
    r = macros_expand(&engine->macros, text, (size_t)(begin - text->sql),
                      (size_t)(after - text->sql), &rope, &why, &place);
    if (r == 0 && !rope.sql.size) // an empty list of calls
        return 1;
    if (r == 0)
        r = row_numbers_replace(&rope);
    if (r == 0)
        r = newer_sql_replace(&rope, sqlite3_libversion_number());
    if (r == 0 && sql_blanks_skip(rope.sql.text, rope.sql.text + rope.sql.size) <
                      rope.sql.text + rope.sql.size)
        r = rope_run(engine, &rope, ret);
    else if (r < 0) {
        engine->here = place;
        engine_fail(engine, r, NULL, NULL, "%s", why.text ? why.text : "out of memory");
    }
    return r < 0 ? r : 1;
}

void sql_engine_step_failed(struct sql_engine *engine)
{
    engine_fail_sqlite(engine, NULL, NULL);
}

const struct sql_packages *sql_engine_packages(const struct sql_engine *engine)
{
    return engine->packages;
}

const char *sql_engine_error(const struct sql_engine *engine)
{
    return engine->error.size ? engine->error.text : "out of memory";
}

int sql_engine_new(struct sqlite3 *handle, struct sql_packages *packages, struct sql_engine **ret)
{
    struct sql_engine *engine = calloc(1, sizeof(*engine));
    if (!engine)
        return -ENOMEM;
    engine->handle = handle;
    engine->packages = packages;
    int code = legacy_register(engine);
    if (code == SQLITE_OK)
        code = columns_register(engine);
    if (code == SQLITE_OK)
        code = library_tables_register(engine);
    if (code != SQLITE_OK) {
        sql_engine_free(engine);
        return -ENOMEM;
    }
    *ret = engine;
    return 0;
}

struct sql_engine *sql_engine_free(struct sql_engine *engine)
{
    if (!engine)
        return NULL;
    scalars_free(engine);
    left_out_free(engine);
    names_done(&engine->kept_tables);
    names_done(&engine->table_functions);
    strbuf_done(&engine->calls);
    macros_done(&engine->macros);
    vec_foreach(&engine->texts, text) {
        free((*text)->name);
        free((*text)->sql);
        free(*text);
    }
    sql_text_vec_done(&engine->texts);
    strbuf_done(&engine->error);
    free(engine);
    return NULL;
}
