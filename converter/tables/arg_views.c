// SPDX-License-Identifier: Apache-2.0
//
// Names of events and fields come from the trace, so they are quoted, and a view or column gets
// another name if its name is taken. Kinds of one name share a view, even if their fields are in
// different slots, as in a database of several traces.
//
// A text file can name a new event in each line. For each new view SQLite reads the names of all
// older views, which would take squared time, so the number of views has a limit. No kernel has as
// many events.
#include "converter/tables/arg_views.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/tables/statement.h"

#define VIEWS_LIMIT "2000"

static void add_f(struct strbuf *sql, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = sqlite3_vmprintf(format, args);
    va_end(args);
    if (text)
        strbuf_add_str(sql, text);
    else
        sql->failed = true;
    sqlite3_free(text);
}

static bool name_is_taken(sqlite3 *handle, const char *name)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    sqlite3_prepare_v2(handle, "SELECT 1 FROM sqlite_master WHERE name = ?1 COLLATE NOCASE", -1,
                       &statement, NULL);
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    return sqlite3_step(statement) == SQLITE_ROW;
}

bool arg_view_shares(const char *column)
{
    static const char *const shared[] = {"id", "ts", "cpu", "utid", "arg_set_id"};
    for (size_t i = 0; i < ELEMENTS(shared); i++)
        if (sqlite3_stricmp(shared[i], column) == 0)
            return true;
    return false;
}

// Adds a column to the view for each key. Its value comes from the slot that the key has in the
// event's kind. `kinds` is a list of ids, separated by commas.
static int columns_add(sqlite3 *handle, struct strbuf *sql, const char *kinds)
{
    CLEANUP(strbuf_done) struct strbuf query = {0};
    CLEANUP(statement_finalizep) sqlite3_stmt *fields = NULL;
    add_f(&query,
          "SELECT f.key, group_concat(' WHEN ' || f.kind_id || ' THEN ' || CASE f.type WHEN 3 "
          "THEN 'CAST(e.value_' || f.slot || ' AS REAL)' ELSE 'e.value_' || f.slot END, ''), "
          "count(*), min(f.slot), max(f.type) FROM _arg_field f WHERE f.kind_id IN (%s) "
          "GROUP BY f.key COLLATE NOCASE ORDER BY min(f.id)",
          kinds);
    int code =
        query.failed ? SQLITE_NOMEM : sqlite3_prepare_v2(handle, query.text, -1, &fields, NULL);
    if (code != SQLITE_OK)
        return code;
    while ((code = sqlite3_step(fields)) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(fields, 0);
        const char *cases = (const char *)sqlite3_column_text(fields, 1);
        if (sqlite3_column_int(fields, 2) == 1 && sqlite3_column_int(fields, 4) != 3)
            add_f(sql, ", e.value_%d", sqlite3_column_int(fields, 3));
        else
            add_f(sql, ", CASE e.kind_id%s END", cases);
        add_f(sql, " AS \"%s%w\"", arg_view_shares(key) ? "field_" : "", key);
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int view_make(sqlite3 *handle, const char *name, const char *kinds)
{
    CLEANUP(strbuf_done) struct strbuf sql = {0}, view = {0};
    add_f(&view, ARG_VIEW_PREFIX "%s", name);
    while (!view.failed && name_is_taken(handle, view.text))
        strbuf_add_char(&view, '_');
    add_f(&sql,
          "CREATE VIEW \"%w\" AS SELECT e.id, e.ts, e.ucpu & 4095 AS cpu, e.utid, "
          "e.id AS arg_set_id",
          view.text);
    int code = columns_add(handle, &sql, kinds);
    add_f(&sql, " FROM _arg_set e WHERE e.kind_id IN (%s)", kinds);
    if (sql.failed || view.failed)
        return SQLITE_NOMEM;
    return code == SQLITE_OK ? sqlite3_exec(handle, sql.text, NULL, NULL, NULL) : code;
}

static int views_drop(sqlite3 *handle)
{
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    CLEANUP(statement_finalizep) sqlite3_stmt *views = NULL;
    int code = sqlite3_prepare_v2(handle,
                                  "SELECT name FROM sqlite_master WHERE type = 'view' AND "
                                  "sql LIKE '% FROM \\_arg\\_set e WHERE e.kind\\_id IN (%' "
                                  "ESCAPE '\\'",
                                  -1, &views, NULL);
    while (code == SQLITE_OK && sqlite3_step(views) == SQLITE_ROW)
        add_f(&sql, "DROP VIEW \"%w\";", sqlite3_column_text(views, 0));
    int read = sqlite3_finalize(STEAL(views)); // the code of the step that ended the loop
    if (sql.failed)
        return SQLITE_NOMEM;
    if (code == SQLITE_OK)
        code = read;
    return code == SQLITE_OK && sql.text ? sqlite3_exec(handle, sql.text, NULL, NULL, NULL) : code;
}

int arg_views_make(sqlite3 *handle)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *kinds = NULL;
    int code = views_drop(handle);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(handle,
                                  "SELECT name, group_concat(id) FROM _arg_kind "
                                  "WHERE name <> '' AND name NOT GLOB '*[^A-Za-z0-9_]*' "
                                  "GROUP BY name COLLATE NOCASE HAVING count(DISTINCT name) = 1 "
                                  "ORDER BY min(id) LIMIT " VIEWS_LIMIT,
                                  -1, &kinds, NULL);
    while (code == SQLITE_OK && sqlite3_step(kinds) == SQLITE_ROW)
        code = view_make(handle, (const char *)sqlite3_column_text(kinds, 0),
                         (const char *)sqlite3_column_text(kinds, 1));
    int read = sqlite3_finalize(STEAL(kinds));
    return code == SQLITE_OK ? read : code;
}
