// SPDX-License-Identifier: Apache-2.0
//
// docs/tables.md lists what differs. Here is what a view can undo: a column that another one says
// better, and NULL where trace_processor has 0.
#include "converter/perfetto_sql/compat.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/tables/statement.h"

// The value of columns whose names match a pattern of GLOB; %s is the column.
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

// The view's SQL, for sqlite3_free(); NULL: the database does not have the table, or memory is out.
static char *view_sql(sqlite3 *handle, const char *table)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *columns = NULL;
    if (sqlite3_prepare_v2(handle, "SELECT name FROM pragma_table_info(?1, 'main')", -1, &columns,
                           NULL) != SQLITE_OK)
        return NULL;
    sqlite3_bind_text(columns, 1, table, -1, SQLITE_STATIC);
    sqlite3_str *sql = sqlite3_str_new(handle);
    sqlite3_str_appendf(sql, "CREATE TEMP VIEW \"%w\" AS SELECT ", table);
    int n = 0;
    while (sqlite3_step(columns) == SQLITE_ROW) {
        const char *column = (const char *)sqlite3_column_text(columns, 0);
        const char *value = column ? value_find(table, column) : NULL;
        sqlite3_str_appendall(sql, n++ ? ", " : "");
        sqlite3_str_appendf(sql, value ? value : "\"%w\"", column);
        sqlite3_str_appendf(sql, " AS \"%w\"", column);
    }
    sqlite3_str_appendf(sql, " FROM main.\"%w\"", table);
    char *ret = sqlite3_str_finish(sql);
    if (n)
        return ret;
    sqlite3_free(ret);
    return NULL;
}

int compat_views_make(sqlite3 *handle)
{
    const char *last = "";
    for (size_t i = 0; i < ELEMENTS(changes); i++) {
        bool is_done = str_eq(changes[i].table, last);
        last = changes[i].table;
        char *sql = is_done ? NULL : view_sql(handle, last);
        int code = sql ? sqlite3_exec(handle, sql, NULL, NULL, NULL) : SQLITE_OK;
        sqlite3_free(sql);
        if (code != SQLITE_OK)
            return code == SQLITE_NOMEM ? -ENOMEM : -EINVAL;
    }
    return 0;
}
