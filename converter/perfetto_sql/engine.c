// SPDX-License-Identifier: Apache-2.0
#include "converter/perfetto_sql/engine.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "converter/perfetto_sql/engine_state.h"
#include "converter/perfetto_sql/packages.h"
#include "converter/perfetto_sql/token.h"

#define INCLUDE_DEPTH  100
#define INTERNAL_TRIES 16 // internal tables behind the views of one statement

static int error_end(struct sql_engine *engine, int r)
{
    if (engine->error.failed) {
        strbuf_done(&engine->error);
        return -ENOMEM;
    }
    return r;
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
    if (rope && at)
        macros_trace(&engine->macros, &engine->error,
                     rope_origin(rope, (size_t)(at - rope->sql.text)));
    return error_end(engine, r);
}

int engine_fail_sqlite(struct sql_engine *engine, const struct sql_rope *rope, const char *at)
{
    int offset = -1, r = sqlite3_errcode(engine->handle) == SQLITE_NOMEM ? -ENOMEM : -EINVAL;
#if SQLITE_VERSION_NUMBER >= 3038000
    offset = sqlite3_error_offset(engine->handle);
#endif
    // The place of an error in a view or function belongs to the text of the view or function.
    if (!at || offset < 0 || (size_t)offset > strlen(at))
        offset = -1;
    const char *message = sqlite3_errmsg(engine->handle);
    const char *missing = prelude_missing(engine, message);
    return engine_fail(engine, r, offset < 0 ? NULL : rope, offset < 0 ? NULL : at + offset,
                       missing ? "%s, which is made of %s: mmsql does not have that table" : "%s",
                       message, missing);
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
            return r < 0 ? r : engine_fail_sqlite(engine, rope, rope->sql.text);
        code = sqlite3_prepare_v2(engine->handle, rope->sql.text, -1, &statement, NULL);
    }
    if (code != SQLITE_OK)
        return engine_fail_sqlite(engine, rope, rope->sql.text);
    *ret = statement;
    return 0;
}

// Runs statements to their end.
static int engine_step(struct sql_engine *engine, struct sqlite3_stmt *statement,
                       const struct sql_rope *rope)
{
    int code;
    do {
        code = sqlite3_step(statement);
    } while (code == SQLITE_ROW);
    int r = code == SQLITE_DONE ? 0 : engine_fail_sqlite(engine, rope, NULL);
    sqlite3_finalize(statement);
    return r;
}

int engine_run_rope(struct sql_engine *engine, const struct sql_rope *rope)
{
    sqlite3_stmt *statement = NULL;
    int r = engine_prepare(engine, rope, &statement);
    return r == 0 && statement ? engine_step(engine, statement, rope) : r;
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

static int module_run(struct sql_engine *engine, struct sql_package_module *module)
{
    CLEANUP(strbuf_done) struct strbuf name = {0};
    strbuf_addf(&name, "module %s", module->name);
    const struct sql_text *text =
        name.failed ? NULL : sql_engine_text(engine, name.text, module->sql);
    if (!text)
        return engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory");
    module->is_included = true; // before the module runs, because modules may form a circle
    size_t at = 0;
    int r;
    do {
        sqlite3_stmt *statement = NULL;
        r = sql_engine_next(engine, text, &at, &statement);
        if (r > 0 && statement && (r = engine_step(engine, statement, NULL)) == 0)
            r = 1;
    } while (r > 0);
    if (r < 0)
        module->is_included = false;
    return r;
}

// With "*" a module that takes an internal table of trace_processor, which mmsql does not have, is
// left out.
static int include(struct sql_engine *engine, const char *pattern, size_t size, bool *ret_found)
{
    bool is_any = size == 1 && *pattern == '*';
    int r = 0;
    if (engine->depth == INCLUDE_DEPTH)
        return engine_fail(engine, -ELOOP, NULL, NULL, "more than %d modules include each other",
                           INCLUDE_DEPTH);
    engine->depth++;
    for (size_t i = 0; i < engine->packages->modules.n && r == 0; i++) {
        struct sql_package_module *module = &engine->packages->modules.items[i];
        if (!module_matches(module, pattern, size))
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
    bool found = size > 0 && pattern[size - 1] == '*';
    int r = include(engine, pattern, size, &found);
    return r == 0 && !found ? module_missing(engine, rope, pattern, size) : r;
}

int sql_engine_include(struct sql_engine *engine, const char *pattern)
{
    return include_checked(engine, NULL, pattern, strlen(pattern));
}

// A macro's body is taken from the text itself: its calls are replaced when the macro is called.
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
    if (!definition->replaces && macros_find(&engine->macros, macro.name, strlen(macro.name))) {
        engine_fail(engine, -EEXIST, NULL, NULL,
                    "macro %s!: there is one of this name already (CREATE OR REPLACE)", macro.name);
        sql_macro_done(&macro);
        return -EEXIST;
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
        r = macro_create(engine, text, &definition);
    else if (r == -EINVAL) {
        struct sql_piece place = {.text = text, .offset = (size_t)(at - text->sql)};
        engine_fail(engine, r, NULL, NULL, "CREATE PERFETTO MACRO: %s", why.text);
        sql_place_print(&engine->error, &place);
        r = error_end(engine, r);
    }
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

// An expanded statement.
static int rope_run(struct sql_engine *engine, const struct sql_rope *rope,
                    struct sqlite3_stmt **ret)
{
    CLEANUP(definition_done) struct sql_definition definition = {0};
    CLEANUP(strbuf_done) struct strbuf why = {0};
    const char *at = rope->sql.text;
    int r = definition_read(at, at + rope->sql.size, &definition, &why, &at);
    if (r == -EINVAL)
        return engine_fail(engine, r, rope, at, "%s", why.text);
    if (r < 0)
        return engine_fail(engine, r, NULL, NULL, "out of memory");
    if (definition.kind == DEFINITION_NONE) {
        r = legacy_statement(engine, rope->sql.text, rope->sql.size);
        return r > 0 ? 0 : r < 0 ? r : engine_prepare(engine, rope, ret);
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
        engine_fail(engine, r, NULL, NULL, "%s", why.text ? why.text : "out of memory");
        macros_trace(&engine->macros, &engine->error, place);
        r = error_end(engine, r);
    }
    return r < 0 ? r : 1;
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
