// SPDX-License-Identifier: Apache-2.0
//
// The prelude: the modules that are run before the first statement. The prelude of trace_processor
// makes public tables from internal tables. The database has most of these public tables itself,
// with indexes, so the prelude does not replace them. The internal tables are temporary views here.
// The engine makes the views for a library of the user, and otherwise at the first statement that
// names an internal table.
#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/perfetto_sql/engine.h"
#include "converter/perfetto_sql/engine_state.h"
#include "converter/perfetto_sql/packages.h"
#include "converter/perfetto_sql/token.h"
#include "converter/sql/sql.h"
#include "converter/tables/statement.h"

#define INTERNAL "__intrinsic_"
#define NO_TABLE "no such table: "

// Makes the internal table `name`: a view of the table or view whose name is the rest of `name`.
static int internal_view(struct sql_engine *engine, sqlite3_stmt *find, struct sql_token name)
{
    sqlite3_reset(find);
    sqlite3_bind_text(find, 1, name.text + strlen(INTERNAL), (int)(name.size - strlen(INTERNAL)),
                      SQLITE_STATIC);
    if (sqlite3_step(find) != SQLITE_ROW)
        return 0;
    return engine_run(engine, "CREATE TEMP VIEW IF NOT EXISTS %.*s AS SELECT * FROM main.\"%s\"",
                      (int)name.size, name.text, (const char *)sqlite3_column_text(find, 0));
}

// Makes the internal tables that `sql` names.
static int internal_views_of(struct sql_engine *engine, const char *sql)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *find = NULL;
    static const char question[] =
        "SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view') "
        "AND name IN (?1, '_' || ?1) ORDER BY length(name)";
    if (sqlite3_prepare_v2(engine->handle, question, -1, &find, NULL) != SQLITE_OK)
        return engine_fail_sqlite(engine, NULL, NULL);
    const char *at = sql, *end = at + strlen(at);
    int r = 0;
    while (r == 0 && (at = strstr(at, INTERNAL))) {
        struct sql_token name = sql_token_read(at, end);
        r = internal_view(engine, find, name);
        at = name.text + name.size;
    }
    return r;
}

static int internal_views(struct sql_engine *engine)
{
    int r = internal_views_of(engine, sql_intrinsics);
    if (!engine->packages->is_foreign)
        return r;
    vec_foreach(&engine->packages->modules, module)
        r = r == 0 && strstr(module->sql, INTERNAL) ? internal_views_of(engine, module->sql) : r;
    return r;
}

static int internal_tables_create(struct sql_engine *engine)
{
    if (engine->has_internal_tables)
        return 0;
    engine->has_internal_tables = true;
    enum sql_stage before = engine->stage;
    engine->stage = STAGE_INTERNAL_TABLES;
    int r = internal_views(engine);
    const struct sql_text *text =
        r == 0 ? sql_engine_text(engine, "internal tables", sql_intrinsics) : NULL;
    if (r == 0 && !text)
        r = engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory");
    size_t at = 0;
    sqlite3_stmt *statement = NULL;
    while (r == 0 && (r = sql_engine_next(engine, text, &at, &statement)) > 0)
        r = 0;
    engine->stage = before;
    return r;
}

int prelude_run(struct sql_engine *engine)
{
    static const char *const parts[] = {"prelude.before_eof.*", "prelude.*"};
    if (!engine->packages->has_prelude)
        return 0;
    engine->packages->has_prelude = false;
    int r = engine->packages->is_foreign ? internal_tables_create(engine) : 0;
    engine->stage = STAGE_PRELUDE;
    for (size_t i = 0; i < ELEMENTS(parts) && r == 0; i++)
        r = sql_engine_include(engine, parts[i]);
    engine->stage = STAGE_DONE;
    return r;
}

static const struct sql_left_out *left_out_find(const struct sql_engine *engine, const char *name,
                                                size_t size)
{
    vec_foreach(&engine->left_out, left_out)
        if (strlen(left_out->name) == size && strncasecmp(left_out->name, name, size) == 0)
            return left_out;
    return NULL;
}

// Returns the table or function that is missing according to SQLite's message, without a schema's
// name. Empty: the message says something else.
static struct sql_part missing(const struct sql_engine *engine)
{
    static const char *const kinds[] = {NO_TABLE, "no such function: "};
    const char *why = sql_engine_error(engine);
    for (size_t i = 0; i < ELEMENTS(kinds); i++) {
        if (strncmp(why, kinds[i], strlen(kinds[i])) != 0)
            continue;
        const char *name = why + strlen(kinds[i]);
        size_t size = strcspn(name, "\n ,");
        const char *dot = memchr(name, '.', size);
        return dot ? (struct sql_part){dot + 1, size - (size_t)(dot + 1 - name)}
                   : (struct sql_part){name, size};
    }
    return (struct sql_part){0};
}

static bool is_internal(struct sql_part name)
{
    return name.size > strlen(INTERNAL) && strncasecmp(name.text, INTERNAL, strlen(INTERNAL)) == 0;
}

int prelude_supply(struct sql_engine *engine, const char *sql)
{
    const char *message = sqlite3_errmsg(engine->handle);
    if (engine->stage != STAGE_DONE ||
        strncmp(message, NO_TABLE INTERNAL, strlen(NO_TABLE INTERNAL)) != 0)
        return 0;
    char *name = strdup(message + strlen(NO_TABLE));
    int r = name ? internal_tables_create(engine) : -ENOMEM;
    if (r == 0)
        r = internal_views_of(engine, sql);
    if (r == 0) // a view, not `sql`, may name the table
        r = internal_views_of(engine, name);
    free(name);
    return r == -ENOMEM ? engine_fail(engine, r, NULL, NULL, "out of memory") : r < 0 ? r : 1;
}

bool prelude_lacks(const struct sql_engine *engine)
{
    struct sql_part name = missing(engine);
    return is_internal(name) || left_out_find(engine, name.text, name.size);
}

int prelude_forgive(struct sql_engine *engine, const struct sql_definition *definition, int r)
{
    if (r != -EINVAL || engine->stage == STAGE_DONE)
        return r;
    struct sql_part table = missing(engine);
    const struct sql_left_out *cause = left_out_find(engine, table.text, table.size);
    if (sql_part_is_empty(table) || (engine->stage == STAGE_PRELUDE && !prelude_lacks(engine)))
        return r;
    struct sql_left_out left_out = {
        .name = strndup(definition->name.text, definition->name.size),
        .table = cause ? strdup(cause->table) : strndup(table.text, table.size),
    };
    if (left_out.name && left_out.table && sql_left_out_vec_push(&engine->left_out, left_out) == 0)
        return 0;
    free(left_out.name);
    free(left_out.table);
    return engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory");
}

const char *prelude_missing(const struct sql_engine *engine, const char *message)
{
    if (strncmp(message, NO_TABLE, strlen(NO_TABLE)) != 0)
        return NULL;
    const char *name = message + strlen(NO_TABLE);
    const struct sql_left_out *left_out = left_out_find(engine, name, strlen(name));
    return left_out ? left_out->table : NULL;
}

void left_out_free(struct sql_engine *engine)
{
    vec_foreach(&engine->left_out, left_out) {
        free(left_out->name);
        free(left_out->table);
    }
    sql_left_out_vec_done(&engine->left_out);
}

// Returns whether the database has a table or view of the same name with all columns of the
// definition.
static bool relation_is_there(struct sql_engine *engine, const struct sql_definition *definition)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    if (!definition->columns.n)
        return false;
    strbuf_add_str(&sql, "SELECT ");
    vec_foreach(&definition->columns, field)
        strbuf_addf(&sql, "%sx.\"%.*s\"", field == definition->columns.items ? "" : ", ",
                    (int)field->name.size, field->name.text);
    strbuf_addf(&sql, " FROM main.%.*s AS x", (int)definition->name.size, definition->name.text);
    return !sql.failed &&
           sqlite3_prepare_v2(engine->handle, sql.text, -1, &statement, NULL) == SQLITE_OK;
}

// Returns whether a table of plain SQL was made from the database before the prelude.
static bool table_is_made(struct sql_engine *engine, const struct sql_definition *definition)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    static const char sql[] = "SELECT 1 FROM temp.sqlite_schema WHERE name = ?1 COLLATE NOCASE";
    if (sqlite3_prepare_v2(engine->handle, sql, -1, &statement, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_text(statement, 1, definition->name.text, (int)definition->name.size,
                      SQLITE_STATIC);
    return sqlite3_step(statement) == SQLITE_ROW;
}

// Returns whether mmsql has a function of the same name. Functions of SQLite itself do not count.
static bool function_is_there(struct sql_engine *engine, const struct sql_definition *definition)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    static const char sql[] = "SELECT 1 FROM pragma_function_list WHERE name = lower(?1) AND "
                              "narg IN (?2, -1) AND NOT builtin";
    if (sqlite3_prepare_v2(engine->handle, sql, -1, &statement, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_text(statement, 1, definition->name.text, (int)definition->name.size,
                      SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)definition->arguments.n);
    return sqlite3_step(statement) == SQLITE_ROW;
}

bool prelude_has(struct sql_engine *engine, const struct sql_definition *definition)
{
    if (engine->stage != STAGE_PRELUDE)
        return false;
    switch (definition->kind) {
    case DEFINITION_TABLE:
    case DEFINITION_VIEW:
        return relation_is_there(engine, definition);
    case DEFINITION_CREATE:
        return table_is_made(engine, definition);
    case DEFINITION_FUNCTION:
        return function_is_there(engine, definition);
    default:
        return false;
    }
}
