// SPDX-License-Identifier: Apache-2.0
//
// docs/tables.md lists the differences to trace_processor. A view can undo two kinds of
// differences: a column whose content is in another column of mmsql, and NULL where trace_processor
// has 0.
#include "converter/perfetto_sql/compat.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/tables/statement.h"

// The changed values of columns. `column` is a pattern of GLOB; %w in `value` is the column's name.
static const struct compat {
    const char *table, *column, *value;
} changes[] = {
    {"filedescriptor", "ufd", "fd"}, {"ftrace_event", "common_flags", "ifnull(common_flags, 0)"},
    {"ftrace_event", "cpu", "ucpu"}, {"profiler_smaps", "*_kb", "ifnull(\"%w\", 0)"},
    {"sched", "cpu", "ucpu"},        {"sched_slice", "cpu", "ucpu"},
    {"thread_state", "cpu", "ucpu"},
};

static const char *value_find(const char *table, const char *column)
{
    for (size_t i = 0; i < ELEMENTS(changes); i++)
        if (str_eq(changes[i].table, table) && sqlite3_strglob(changes[i].column, column) == 0)
            return changes[i].value;
    return NULL;
}

// Appends the columns of `table` with their new values: for a SELECT all columns, for an UPDATE
// only the changed columns. Returns their number, which is 0 if the database lacks the table.
static int columns_add(sqlite3_str *sql, sqlite3 *handle, const char *table, bool for_update)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *columns = NULL;
    if (sqlite3_prepare_v2(handle, "SELECT name FROM pragma_table_info(?1, 'main')", -1, &columns,
                           NULL) != SQLITE_OK)
        return 0;
    sqlite3_bind_text(columns, 1, table, -1, SQLITE_STATIC);
    int n = 0;
    while (sqlite3_step(columns) == SQLITE_ROW) {
        const char *column = column_text(columns, 0);
        const char *value = value_find(table, column);
        if (for_update && !value)
            continue;
        sqlite3_str_appendall(sql, n++ ? ", " : "");
        if (for_update)
            sqlite3_str_appendf(sql, "\"%w\" = ", column);
        sqlite3_str_appendf(sql, value ? value : "\"%w\"", column);
        if (!for_update)
            sqlite3_str_appendf(sql, " AS \"%w\"", column);
    }
    return n;
}

// The functions below return SQL, which the caller frees with sqlite3_free(). They return NULL if
// there is nothing to do or memory ran out.

static char *hiding_sql(sqlite3 *handle, const char *table)
{
    sqlite3_str *sql = sqlite3_str_new(handle);
    sqlite3_str_appendf(sql, "CREATE TEMP VIEW \"%w\" AS SELECT ", table);
    int n = columns_add(sql, handle, table, false);
    sqlite3_str_appendf(sql, " FROM main.\"%w\"", table);
    char *ret = sqlite3_str_finish(sql);
    if (!n)
        sqlite3_free(STEAL(ret));
    return ret;
}

static char *update_sql(sqlite3 *handle, const char *table)
{
    sqlite3_str *sql = sqlite3_str_new(handle);
    sqlite3_str_appendf(sql, "UPDATE main.\"%w\" SET ", table);
    columns_add(sql, handle, table, true);
    return sqlite3_str_finish(sql);
}

// Makes a view around the SELECT of an existing view; `made` is the statement that made the view. A
// view that is wrapped already is not changed.
static char *wrapping_sql(sqlite3 *handle, const char *table, const char *made)
{
    sqlite3_str *text = sqlite3_str_new(handle);
    sqlite3_str_appendf(text, "CREATE VIEW \"%w\" AS SELECT ", table);
    columns_add(text, handle, table, false);
    sqlite3_str_appendall(text, " FROM (");
    char *head = sqlite3_str_finish(text), *ret = NULL;
    const char *select = strstr(made, "SELECT");
    if (head && select && !str_starts_with(made, head))
        ret = sqlite3_mprintf("DROP VIEW main.\"%w\"; %s%s)", table, head, select);
    sqlite3_free(head);
    return ret;
}

static char *storing_sql(sqlite3 *handle, const char *table)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *object = NULL;
    if (sqlite3_prepare_v2(handle, "SELECT type, sql FROM main.sqlite_master WHERE name = ?1", -1,
                           &object, NULL) != SQLITE_OK)
        return NULL;
    sqlite3_bind_text(object, 1, table, -1, SQLITE_STATIC);
    if (sqlite3_step(object) != SQLITE_ROW)
        return NULL;
    return str_eq(column_text(object, 0), "view")
               ? wrapping_sql(handle, table, column_text(object, 1))
               : update_sql(handle, table);
}

static int tables_change(sqlite3 *handle, char *(*make_sql)(sqlite3 *handle, const char *table))
{
    const char *last = "";
    for (size_t i = 0; i < ELEMENTS(changes); i++) {
        bool is_done = str_eq(changes[i].table, last);
        last = changes[i].table;
        char *sql = is_done ? NULL : make_sql(handle, last);
        int code = sql ? sqlite3_exec(handle, sql, NULL, NULL, NULL) : SQLITE_OK;
        sqlite3_free(sql);
        if (code != SQLITE_OK)
            return code == SQLITE_NOMEM ? -ENOMEM : -EINVAL;
    }
    return 0;
}

int compat_views_make(sqlite3 *handle)
{
    return tables_change(handle, hiding_sql);
}

bool compat_is_stored(sqlite3 *handle)
{
    return sql_number(handle,
                      "SELECT count(*) FROM main.sqlite_master WHERE name = 'sched_slice' "
                      "AND instr(sql, 'ucpu AS \"cpu\"')",
                      0);
}

int compat_store(sqlite3 *handle, struct err *err)
{
    int r = sql_run(handle, "BEGIN", "--compat", err);
    if (r < 0)
        return r;
    r = tables_change(handle, storing_sql);
    if (r < 0)
        return err_set(err, r, "--compat: %s", sqlite3_errmsg(handle));
    if (!compat_is_stored(handle))
        return err_errno(err, -ENOMEM, "--compat");
    return sql_run(handle, "COMMIT", "--compat", err);
}
