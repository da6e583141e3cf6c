// SPDX-License-Identifier: Apache-2.0
//
// The database is open for reading only, so everything is made in the schema temp. There a name
// hides the same name of the database.
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "converter/functions/functions.h"
#include "converter/perfetto_sql/engine_state.h"
#include "converter/perfetto_sql/token.h"
#include "converter/tables/statement.h"

#define PART(part) (int)(part).size, (part).text

static bool part_is(struct sql_part part, const char *word)
{
    return part.size == strlen(word) && strncasecmp(part.text, word, part.size) == 0;
}

static void rope_add_part(struct sql_rope *ret, const struct sql_rope *rope, struct sql_part part)
{
    size_t begin = (size_t)(part.text - rope->sql.text);
    rope_add(ret, rope, begin, begin + part.size);
}

// Compares the columns that the statement declares with those of the relation.
static int columns_check(struct sql_engine *engine, const struct sql_rope *rope,
                         const struct sql_definition *definition)
{
    CLEANUP(rope_done) struct sql_rope sql = {0};
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    rope_add_made(&sql, "SELECT * FROM temp.");
    rope_add_part(&sql, rope, definition->name);
    int r = engine_prepare(engine, &sql, &statement);
    int n = r == 0 ? sqlite3_column_count(statement) : 0;
    vec_foreach(&definition->columns, field) {
        bool found = false;
        for (int i = 0; i < n && !found; i++)
            found = part_is(field->name, sqlite3_column_name(statement, i));
        if (r == 0 && !found)
            r = engine_fail(engine, -EINVAL, rope, field->name.text,
                            "%.*s: the SQL has no column %.*s, which is declared",
                            PART(definition->name), PART(field->name));
    }
    for (int i = 0; i < n && r == 0 && definition->columns.n; i++) {
        bool found = false;
        vec_foreach(&definition->columns, field)
            found |= part_is(field->name, sqlite3_column_name(statement, i));
        if (!found)
            r = engine_fail(engine, -EINVAL, rope, definition->name.text,
                            "%.*s: the SQL has a column %s, which is not declared",
                            PART(definition->name), sqlite3_column_name(statement, i));
    }
    return r;
}

// Removes what has the name already, whether table or view.
static int relation_drop(struct sql_engine *engine, struct sql_part name)
{
    char *sql = sqlite3_mprintf("DROP TABLE IF EXISTS temp.%.*s", PART(name));
    if (!sql)
        return engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory");
    int code = sqlite3_exec(engine->handle, sql, NULL, NULL, NULL);
    sqlite3_free(sql);
    // SQLite refuses DROP TABLE for a view.
    return code == SQLITE_OK ? 0 : engine_run(engine, "DROP VIEW IF EXISTS temp.%.*s", PART(name));
}

#define INDEXED_ROWS_MIN 1000

// Returns whether the table has many rows, and the column id rises from row to row.
static bool ids_rise(struct sql_engine *engine, struct sql_part name)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    char *sql = sqlite3_mprintf("SELECT id FROM temp.%.*s", PART(name));
    bool rises = sql && sqlite3_prepare_v2(engine->handle, sql, -1, &statement, NULL) == SQLITE_OK;
    int64_t n = 0, last = 0;
    sqlite3_free(sql);
    while (rises && sqlite3_step(statement) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(statement, 0);
        rises = sqlite3_column_type(statement, 0) == SQLITE_INTEGER && (n == 0 || id > last);
        last = id;
        n++;
    }
    return rises && n >= INDEXED_ROWS_MIN;
}

// trace_processor finds an id fast in a table that has its rows in this order, and modules rely on
// that: a scan of a graph joins such a table at each step. Rows found by the index are in the same
// order as the rows of the table. Without the index the answers are the same, so a failure to make
// the index is ignored.
static void ids_index(struct sql_engine *engine, struct sql_part name)
{
    if (!ids_rise(engine, name))
        return;
    char *sql =
        sqlite3_mprintf("CREATE INDEX temp.\"%.*s#id\" ON %.*s(id)", PART(name), PART(name));
    if (sql)
        sqlite3_exec(engine->handle, sql, NULL, NULL, NULL);
    sqlite3_free(sql);
}

static int relation_create(struct sql_engine *engine, const struct sql_rope *rope,
                           const struct sql_definition *definition)
{
    const char *kind = definition->kind == DEFINITION_VIEW ? "VIEW" : "TABLE";
    CLEANUP(rope_done) struct sql_rope sql = {0};
    int r = definition->replaces ? relation_drop(engine, definition->name) : 0;
    rope_add_made(&sql, "CREATE TEMP ");
    rope_add_made(&sql, kind);
    rope_add_made(&sql, " ");
    rope_add_part(&sql, rope, definition->name);
    rope_add_made(&sql, " AS ");
    rope_add_part(&sql, rope, definition->body);
    if (r == 0)
        r = engine_run_rope(engine, &sql);
    if (r < 0)
        return r;
    r = columns_check(engine, rope, definition);
    if (r == 0 && definition->kind != DEFINITION_VIEW)
        ids_index(engine, definition->name);
    if (r < 0) {
        char *drop = sqlite3_mprintf("DROP %s temp.%.*s", kind, PART(definition->name));
        if (drop)
            sqlite3_exec(engine->handle, drop, NULL, NULL, NULL);
        sqlite3_free(drop);
    }
    return r;
}

// CREATE TABLE, VIEW or VIRTUAL TABLE of plain SQL.
static int plain_create(struct sql_engine *engine, const struct sql_rope *rope,
                        const struct sql_definition *definition)
{
    CLEANUP(rope_done) struct sql_rope sql = {0};
    CLEANUP(strbuf_done) struct strbuf head = {0};
    strbuf_addf(&head, "CREATE %.*s %s temp.", PART(definition->what),
                definition->only_if_missing ? "IF NOT EXISTS" : "");
    if (head.failed)
        return -ENOMEM;
    rope_add_made(&sql, head.text);
    rope_add_part(&sql, rope, definition->name);
    rope_add_made(&sql, " ");
    rope_add_part(&sql, rope, definition->body);
    return engine_run_rope(engine, &sql);
}

// The body with ?1 to ?n instead of the arguments' names.
static int body_number(const struct sql_rope *rope, const struct sql_definition *definition,
                       struct sql_rope *ret)
{
    const char *at = definition->body.text, *end = at + definition->body.size, *copied = at;
    while (at < end) {
        struct sql_token token = sql_token_read(at, end);
        at = token.text + token.size;
        if (token.kind != SQL_VARIABLE || *token.text != '$')
            continue;
        for (size_t i = 0; i < definition->arguments.n; i++) {
            struct sql_part name = definition->arguments.items[i].name;
            if (name.size != token.size - 1 ||
                strncasecmp(name.text, token.text + 1, name.size) != 0)
                continue;
            char number[24];
            snprintf(number, sizeof(number), "?%zu", i + 1);
            struct sql_part before = {copied, (size_t)(token.text - copied)};
            rope_add_part(ret, rope, before);
            rope_add_made(ret, number);
            copied = at;
            break;
        }
    }
    struct sql_part rest = {copied, (size_t)(end - copied)};
    rope_add_part(ret, rope, rest);
    return rope_check(ret);
}

static int function_add(struct sql_engine *engine, const struct sql_definition *definition,
                        const char *sql)
{
    CLEANUP(freep) char *name = strndup(definition->name.text, definition->name.size);
    int n = (int)definition->arguments.n, code;
    if (!name)
        return engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory");
    if (part_is(definition->returns, "TABLE"))
        code = table_function_add(engine->handle, name, sql, n);
    else
        code = scalar_add(engine, name, definition->is_variadic ? -1 : n, sql);
    return code == SQLITE_OK
               ? 0
               : engine_fail(engine, code == SQLITE_NOMEM ? -ENOMEM : -EINVAL, NULL, NULL,
                             "function %s: %s", name,
                             code == SQLITE_RANGE  ? "too many arguments"
                             : code == SQLITE_BUSY ? "it runs, so it cannot be replaced"
                                                   : sqlite3_errmsg(engine->handle));
}

// SELECT g(?1, ?2), or SELECT * FROM g(?1, ?2).
static int delegate_create(struct sql_engine *engine, const struct sql_definition *definition)
{
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    bool is_table = part_is(definition->returns, "TABLE");
    strbuf_addf(&sql, "SELECT %s%.*s(", is_table ? "* FROM " : "", PART(definition->delegate));
    for (size_t i = 0; i < definition->arguments.n && !definition->is_variadic; i++)
        strbuf_addf(&sql, "%s?%zu", i ? ", " : "", i + 1);
    if (!definition->is_variadic)
        strbuf_add_char(&sql, ')');
    return sql.failed ? engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory")
                      : function_add(engine, definition, sql.text);
}

// Creates a function from its parts; `body` and `delegate` are as in the definition.
static int create_function(struct sql_engine *engine, const struct sql_rope *rope,
                           const struct sql_definition *definition)
{
    CLEANUP(rope_done) struct sql_rope body = {0};
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    if (!sql_part_is_empty(definition->delegate))
        return delegate_create(engine, definition);
    int r = body_number(rope, definition, &body);
    if (r == 0)
        r = function_add(engine, definition, body.sql.text);
    // The function may call itself, so it is registered before its body is compiled.
    if (r == 0)
        r = engine_prepare(engine, &body, &statement);
    if (r == 0 && !part_is(definition->returns, "TABLE") && sqlite3_column_count(statement) != 1)
        r = engine_fail(engine, -EINVAL, rope, definition->name.text,
                        "function %.*s: its SQL returns %d columns instead of one",
                        PART(definition->name), sqlite3_column_count(statement));
    return r;
}

// No index can be added to the database's own tables; queries get the same answer without it.
static int index_create(struct sql_engine *engine, const struct sql_rope *rope,
                        const struct sql_definition *definition)
{
    CLEANUP(rope_done) struct sql_rope sql = {0};
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    CLEANUP(strbuf_done) struct strbuf columns = {0};
    vec_foreach(&definition->arguments, field)
        strbuf_addf(&columns, "%s%.*s", columns.size ? ", " : "", PART(field->name));
    if (columns.failed)
        return -ENOMEM;
    rope_add_made(&sql, "SELECT ");
    rope_add_made(&sql, columns.text);
    rope_add_made(&sql, " FROM ");
    rope_add_part(&sql, rope, definition->on);
    int r = engine_prepare(engine, &sql, &statement);
    bool is_temporary = r == 0 && sqlite3_column_database_name(statement, 0) &&
                        strcmp(sqlite3_column_database_name(statement, 0), "temp") == 0 &&
                        part_is(definition->on, sqlite3_column_table_name(statement, 0));
    if (r < 0 || !is_temporary)
        return r;
    if (definition->replaces)
        r = engine_run(engine, "DROP INDEX IF EXISTS temp.\"%.*s.%.*s\"", PART(definition->on),
                       PART(definition->name));
    return r == 0 ? engine_run(engine, "CREATE INDEX temp.\"%.*s.%.*s\" ON %.*s(%s)",
                               PART(definition->on), PART(definition->name), PART(definition->on),
                               columns.text)
                  : r;
}

static int drop(struct sql_engine *engine, const struct sql_rope *rope,
                const struct sql_definition *definition)
{
    const char *careful = definition->replaces ? "IF EXISTS " : "";
    if (part_is(definition->what, "INDEX"))
        return engine_run(engine, "DROP INDEX %stemp.\"%.*s.%.*s\"", careful, PART(definition->on),
                          PART(definition->name));
    if (!part_is(definition->what, "MACRO"))
        return engine_run(engine, "DROP %.*s %stemp.%.*s", PART(definition->what), careful,
                          PART(definition->name));
    bool found = macros_remove(&engine->macros, definition->name.text, definition->name.size);
    return found || definition->replaces
               ? 0
               : engine_fail(engine, -ENOENT, rope, definition->name.text,
                             "DROP PERFETTO MACRO: there is no macro %.*s!",
                             PART(definition->name));
}

int create_run(struct sql_engine *engine, const struct sql_rope *rope,
               const struct sql_definition *definition)
{
    int r;
    switch (definition->kind) {
    case DEFINITION_TABLE:
    case DEFINITION_VIEW:
        r = relation_create(engine, rope, definition);
        break;
    case DEFINITION_FUNCTION:
        r = create_function(engine, rope, definition);
        break;
    case DEFINITION_INDEX:
        r = index_create(engine, rope, definition);
        break;
    case DEFINITION_DROP:
        r = drop(engine, rope, definition);
        break;
    default:
        r = plain_create(engine, rope, definition);
    }
    return r == -ENOMEM ? engine_fail(engine, r, NULL, NULL, "out of memory") : r;
}
