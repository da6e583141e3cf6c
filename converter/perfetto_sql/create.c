// SPDX-License-Identifier: Apache-2.0
//
// The database is open for reading only, so all objects are made in the schema temp. A name in this
// schema hides the same name of the database.
#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/perfetto_sql/create.h"
#include "converter/perfetto_sql/engine_state.h"
#include "converter/perfetto_sql/packages.h"
#include "converter/tables/statement.h"

#define SCRATCH "\"#scratch\"" // a table while its columns are checked

bool part_is(struct sql_part part, const char *word)
{
    return part.size == strlen(word) && strncasecmp(part.text, word, part.size) == 0;
}

void rope_add_part(struct sql_rope *ret, const struct sql_rope *rope, struct sql_part part)
{
    size_t begin = (size_t)(part.text - rope->sql.text);
    rope_add(ret, rope, begin, begin + part.size);
}

struct sql_piece here_move(struct sql_engine *engine, const struct sql_rope *rope,
                           struct sql_part part)
{
    struct sql_piece before = engine->here;
    struct sql_piece place = rope_origin(rope, (size_t)(part.text - rope->sql.text));
    if (place.text)
        engine->here = place;
    return before;
}

int types_check(struct sql_engine *engine, const struct sql_rope *rope,
                const struct sql_field_vec *fields)
{
    vec_foreach(fields, field)
        if (sql_type_read(field->type) == SQL_TYPE_UNKNOWN)
            return engine_fail(engine, -EINVAL, rope, field->type.text,
                               "%.*s: there is no type %.*s (there are LONG, DOUBLE, STRING, BOOL, "
                               "BYTES, ANY, TIMESTAMP, DURATION, ID, JOINID and ARGSETID)",
                               PART(field->name), PART(field->type));
    return 0;
}

int relation_kind(struct sql_engine *engine, struct sql_part name, enum relation *ret)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    CLEANUP(freep) char *bare = engine_name(name);
    static const char sql[] = "SELECT type = 'view' FROM temp.sqlite_schema WHERE name = ?1 "
                              "COLLATE NOCASE AND type IN ('table', 'view')";
    *ret = RELATION_NONE;
    if (!bare)
        return engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory");
    if (names_have(&engine->table_functions, bare))
        *ret = RELATION_FUNCTION;
    if (sqlite3_prepare_v2(engine->handle, sql, -1, &statement, NULL) != SQLITE_OK)
        return engine_fail_sqlite(engine, NULL, NULL);
    sqlite3_bind_text(statement, 1, bare, -1, SQLITE_STATIC);
    if (sqlite3_step(statement) == SQLITE_ROW)
        *ret = sqlite3_column_int(statement, 0) ? RELATION_VIEW : RELATION_TABLE;
    return 0;
}

int relation_is_other(struct sql_engine *engine, struct sql_part name, enum relation found)
{
    static const char *const kinds[] = {
        [RELATION_TABLE] = "table (DROP TABLE removes it)",
        [RELATION_VIEW] = "view (DROP VIEW removes it)",
        [RELATION_FUNCTION] = "function that returns a table",
    };
    return engine_fail(engine, -EEXIST, NULL, NULL, "%.*s: the name is that of a %s", PART(name),
                       kinds[found]);
}

// Checks the object that has the name already: OR REPLACE can replace only an object of the kind
// `wanted`.
static int replaced_check(struct sql_engine *engine, const struct sql_definition *definition,
                          enum relation wanted, bool *ret_exists)
{
    enum relation found = RELATION_NONE;
    int r = 0;
    if (definition->replaces || engine->table_functions.n)
        r = relation_kind(engine, definition->name, &found);
    bool is_wrong = found == RELATION_FUNCTION || (definition->replaces && found != wanted);
    if (r == 0 && found != RELATION_NONE && is_wrong)
        return relation_is_other(engine, definition->name, found);
    *ret_exists = definition->replaces && found == wanted;
    return r;
}

// Returns whether the SQL may be a union of several SELECTs. SQLite then declares the type that a
// column has in the first SELECT.
static bool has_union(struct sql_part sql)
{
    static const char word[] = "union";
    const size_t n = sizeof(word) - 1;
    for (size_t i = 0; i + n <= sql.size; i++)
        if ((sql.text[i] | 0x20) == *word && strncasecmp(sql.text + i, word, n) == 0)
            return true;
    return false;
}

// Adds an index of the ids to a table whose ids rise. trace_processor finds an id fast in such a
// table, and modules rely on this speed: a scan of a graph joins such a table at each step. The
// index has the same order as the table. Without the index, the answers are the same, so a failure
// is ignored.
static void ids_index(struct sql_engine *engine, struct sql_part name)
{
    char *sql =
        sqlite3_mprintf("CREATE INDEX temp.\"%.*s#id\" ON %.*s(id)", PART(name), PART(name));
    if (sql)
        sqlite3_exec(engine->handle, sql, NULL, NULL, NULL);
    sqlite3_free(sql);
}

static void relation_drop(struct sql_engine *engine, const char *kind, const char *name)
{
    char *drop = sqlite3_mprintf("DROP %s IF EXISTS temp.%s", kind, name);
    if (drop)
        sqlite3_exec(engine->handle, drop, NULL, NULL, NULL);
    sqlite3_free(drop);
}

// Makes the table `made` from the definition's SQL, and checks its columns.
static int rows_make(struct sql_engine *engine, const struct sql_rope *rope,
                     const struct sql_definition *definition, const char *made,
                     struct column_values *values)
{
    CLEANUP(rope_done) struct sql_rope sql = {0}, all = {0};
    CLEANUP(statement_finalizep) sqlite3_stmt *rows = NULL;
    rope_add_made(&sql, "CREATE TEMP TABLE ");
    rope_add_made(&sql, made);
    rope_add_made(&sql, " AS ");
    rope_add_part(&sql, rope, definition->body);
    struct sql_piece here = here_move(engine, rope, definition->body);
    int r = engine_run_rope(engine, &sql);
    engine->here = here;
    if (r < 0 && str_ends_with(sqlite3_errmsg(engine->handle), " already exists"))
        return engine_fail(engine, -EEXIST, rope, definition->name.text, "%s (CREATE OR REPLACE)",
                           sqlite3_errmsg(engine->handle));
    if (r < 0)
        return r;
    rope_add_made(&all, "SELECT * FROM temp.");
    rope_add_made(&all, made);
    r = engine_prepare(engine, &all, &rows);
    if (r == 0)
        r = columns_check(engine, rope, definition, rows);
    if (r == 0)
        r = columns_check_values(engine, definition, made, rows, !has_union(definition->body),
                                 values);
    if (r < 0) {
        statement_finalizep(&rows);
        rows = NULL;
        relation_drop(engine, "TABLE", made);
    }
    return r;
}

// Makes the table from the rows in the scratch table.
static int rows_move(struct sql_engine *engine, const char *name, const char *columns)
{
    relation_drop(engine, "TABLE", name);
    int r =
        engine_run(engine, "CREATE TEMP TABLE %s AS SELECT %s FROM temp." SCRATCH, name, columns);
    relation_drop(engine, "TABLE", SCRATCH);
    return r;
}

// Creates or replaces a table. The SQL of a table may read the table that it replaces, and this
// table stays if the SQL fails. Therefore the new rows go to a scratch table first.
static int table_create(struct sql_engine *engine, const struct sql_rope *rope,
                        const struct sql_definition *definition)
{
    CLEANUP(freep) char *name = strndup(definition->name.text, definition->name.size);
    CLEANUP(freep) char *bare = engine_name(definition->name);
    CLEANUP(values_done) struct column_values values = {0};
    bool exists = false;
    if (!name || !bare)
        return -ENOMEM;
    int r = types_check(engine, rope, &definition->columns);
    vec_foreach(&definition->columns, field) {
        enum sql_type type = sql_type_read(field->type);
        if (r == 0 && (type == SQL_TYPE_ANY || type == SQL_TYPE_BYTES))
            r = engine_fail(engine, -EINVAL, rope, field->type.text,
                            "%s: a column of such a table cannot have the type %s", name,
                            sql_type_name(type));
    }
    if (r == 0)
        r = replaced_check(engine, definition, RELATION_TABLE, &exists);
    if (r == 0)
        r = rows_make(engine, rope, definition, exists ? SCRATCH : name, &values);
    if (r == 0 && values.has_reals && !exists)
        r = engine_run(engine, "CREATE TEMP TABLE " SCRATCH " AS SELECT * FROM temp.%s", name);
    if (r == 0 && (values.has_reals || exists))
        r = rows_move(engine, name, values.reals.text);
    if (r == 0 && values.ids_rise)
        ids_index(engine, definition->name);
    return r == 0 ? names_add(&engine->kept_tables, bare) : r;
}

static int view_create(struct sql_engine *engine, const struct sql_rope *rope,
                       const struct sql_definition *definition)
{
    CLEANUP(rope_done) struct sql_rope sql = {0}, body = {0};
    CLEANUP(statement_finalizep) sqlite3_stmt *rows = NULL;
    bool exists = false;
    int r = types_check(engine, rope, &definition->columns);
    if (r == 0)
        r = replaced_check(engine, definition, RELATION_VIEW, &exists);
    if (r < 0)
        return r;
    rope_add_part(&body, rope, definition->body);
    struct sql_piece here = here_move(engine, rope, definition->body);
    r = engine_prepare(engine, &body, &rows);
    engine->here = here;
    if (r == 0)
        r = columns_check(engine, rope, definition, rows);
    if (r == 0 && exists)
        r = engine_run(engine, "DROP VIEW IF EXISTS temp.%.*s", PART(definition->name));
    rope_add_made(&sql, "CREATE TEMP VIEW ");
    rope_add_part(&sql, rope, definition->name);
    rope_add_made(&sql, " AS ");
    // table_calls.c may have changed the text before SQLite took it.
    if (r == 0 && strcmp(sqlite3_sql(rows), body.sql.text) != 0)
        rope_add_made(&sql, sqlite3_sql(rows));
    else
        rope_add_part(&sql, rope, definition->body);
    if (has_union(definition->body))
        engine_mixed_note(engine);
    if (r == 0)
        r = engine_run_rope(engine, &sql);
    return r < 0 && str_ends_with(sqlite3_errmsg(engine->handle), " already exists")
               ? engine_fail(engine, -EEXIST, rope, definition->name.text, "%s (CREATE OR REPLACE)",
                             sqlite3_errmsg(engine->handle))
               : r;
}

// Runs a CREATE TABLE, VIEW or VIRTUAL TABLE of plain SQL.
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
    engine_mixed_note(engine);
    int r = engine_run_rope(engine, &sql);
    CLEANUP(freep) char *bare = r == 0 ? engine_name(definition->name) : NULL;
    if (bare)
        names_remove(&engine->kept_tables, bare);
    return r;
}

// Finds the index of the name. *ret gets its name in SQLite, which begins with the table; empty:
// there is no such index.
static int index_find(struct sql_engine *engine, struct sql_part name, struct strbuf *ret)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    static const char sql[] = "SELECT name FROM temp.sqlite_schema WHERE type = 'index' "
                              "AND name = tbl_name || '.' || ?1 COLLATE NOCASE";
    if (sqlite3_prepare_v2(engine->handle, sql, -1, &statement, NULL) != SQLITE_OK)
        return engine_fail_sqlite(engine, NULL, NULL);
    sqlite3_bind_text(statement, 1, name.text, (int)name.size, SQLITE_STATIC);
    if (sqlite3_step(statement) == SQLITE_ROW)
        strbuf_add_str(ret, column_text(statement, 0));
    return ret->failed ? -ENOMEM : 0;
}

// Checks that the column of an index has exactly the name of the table's column, in upper and lower
// case.
static int index_column_check(struct sql_engine *engine, const struct sql_rope *rope,
                              struct sql_part part, const char *column)
{
    CLEANUP(freep) char *name = engine_name(part);
    if (!name)
        return -ENOMEM;
    return column && strcmp(name, column) == 0
               ? 0
               : engine_fail(engine, -EINVAL, rope, part.text,
                             "CREATE PERFETTO INDEX: the table has no column %s", name);
}

static int index_create(struct sql_engine *engine, const struct sql_rope *rope,
                        const struct sql_definition *definition)
{
    CLEANUP(rope_done) struct sql_rope sql = {0};
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    CLEANUP(strbuf_done) struct strbuf columns = {0}, former = {0};
    CLEANUP(freep) char *table = engine_name(definition->on);
    vec_foreach(&definition->arguments, field)
        strbuf_addf(&columns, "%s%.*s", columns.size ? ", " : "", PART(field->name));
    if (columns.failed || !table)
        return -ENOMEM;
    if (!names_have(&engine->kept_tables, table))
        return engine_fail(engine, -EINVAL, rope, definition->on.text,
                           "CREATE PERFETTO INDEX: %s is not a table made by CREATE PERFETTO TABLE",
                           table);
    rope_add_made(&sql, "SELECT ");
    rope_add_made(&sql, columns.text);
    rope_add_made(&sql, " FROM temp.");
    rope_add_part(&sql, rope, definition->on);
    int r = engine_prepare(engine, &sql, &statement);
    for (size_t i = 0; i < definition->arguments.n && r == 0; i++)
        r = index_column_check(engine, rope, definition->arguments.items[i].name,
                               sqlite3_column_origin_name(statement, (int)i));
    if (r == 0)
        r = index_find(engine, definition->name, &former);
    if (r == 0 && former.size && !definition->replaces)
        return engine_fail(engine, -EEXIST, rope, definition->name.text,
                           "CREATE PERFETTO INDEX: there is an index %.*s already (CREATE OR "
                           "REPLACE)",
                           PART(definition->name));
    if (r == 0 && former.size)
        r = engine_run(engine, "DROP INDEX temp.\"%s\"", former.text);
    return r == 0 ? engine_run(engine, "CREATE INDEX temp.\"%s.%.*s\" ON %.*s(%s)", table,
                               PART(definition->name), PART(definition->on), columns.text)
                  : r;
}

static int index_drop(struct sql_engine *engine, const struct sql_rope *rope,
                      const struct sql_definition *definition)
{
    CLEANUP(strbuf_done) struct strbuf found = {0};
    int r = index_find(engine, definition->name, &found);
    if (r == 0 && found.size)
        return engine_run(engine, "DROP INDEX temp.\"%s\"", found.text);
    return r < 0 || definition->replaces
               ? r
               : engine_fail(engine, -ENOENT, rope, definition->name.text,
                             "DROP PERFETTO INDEX: there is no index %.*s", PART(definition->name));
}

static int drop(struct sql_engine *engine, const struct sql_rope *rope,
                const struct sql_definition *definition)
{
    const char *careful = definition->replaces ? "IF EXISTS " : "";
    if (part_is(definition->what, "INDEX"))
        return index_drop(engine, rope, definition);
    if (!part_is(definition->what, "MACRO")) {
        CLEANUP(freep) char *bare = engine_name(definition->name);
        int r = bare ? engine_run(engine, "DROP %.*s %stemp.%.*s", PART(definition->what), careful,
                                  PART(definition->name))
                     : -ENOMEM;
        if (r == 0)
            names_remove(&engine->kept_tables, bare);
        return r;
    }
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
        r = table_create(engine, rope, definition);
        break;
    case DEFINITION_VIEW:
        r = view_create(engine, rope, definition);
        break;
    case DEFINITION_FUNCTION:
        r = function_create(engine, rope, definition);
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
