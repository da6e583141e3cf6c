// SPDX-License-Identifier: Apache-2.0
//
// Table functions: eponymous virtual tables of SQLite, whose hidden columns are the arguments. One
// module serves all functions; each function is an SQL statement.
#include "converter/functions/functions.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/elements.h"
#include "converter/functions/arg_sets.h"
#include "converter/functions/hash_groups.h"
#include "converter/functions/value_table.h"

SQLITE_EXTENSION_INIT3

#define ARGUMENTS_MAX 16

struct table_function {
    char *name, *sql; // owned
    int n_arguments;
    char *names[ARGUMENTS_MAX]; // owned; of the arguments; NULL: numbers
    void (*on_failure)(void *userdata);
    void *userdata; // owned
};

struct table {
    sqlite3_vtab base;
    sqlite3 *handle; // borrowed
    const struct table_function *function;
    int n_columns;
};

struct cursor {
    sqlite3_vtab_cursor base;
    sqlite3_stmt *statement; // owned
    int64_t row;
    bool at_end;
};

// The other columns of slice, like slice_id, are left out: their names would be ambiguous beside
// the table that a function joins.
#define SLICE_COLUMNS                                                                              \
    "s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id, "      \
    "s.thread_ts, s.thread_dur, s.thread_instruction_count, s.thread_instruction_delta"

static const struct {
    const char *name;
    const char *sql;
} table_functions[] = {
    {"ancestor_slice",
     "WITH RECURSIVE up(id) AS (SELECT parent_id FROM slice WHERE id = ?1 UNION ALL "
     "SELECT s.parent_id FROM up JOIN slice s ON s.id = up.id) "
     "SELECT " SLICE_COLUMNS " FROM slice s JOIN up ON up.id = s.id ORDER BY s.depth"},
    {"descendant_slice",
     "WITH RECURSIVE top AS (SELECT * FROM slice WHERE id = ?1), near AS MATERIALIZED (SELECT "
     "s.id, "
     "s.parent_id FROM slice s JOIN top t ON s.track_id = t.track_id AND s.ts >= t.ts AND "
     "s.depth > t.depth AND (t.dur < 0 OR s.ts <= t.ts + t.dur)), "
     "down(id) AS (SELECT ?1 UNION ALL SELECT n.id FROM down JOIN near n ON n.parent_id = down.id) "
     "SELECT " SLICE_COLUMNS
     " FROM slice s JOIN down ON down.id = s.id WHERE s.id != ?1 ORDER BY s.ts, s.depth"},
    {"ancestor_stack_profile_callsite",
     "WITH RECURSIVE up(id) AS (SELECT parent_id FROM stack_profile_callsite WHERE id = ?1 UNION "
     "ALL SELECT c.parent_id FROM up JOIN stack_profile_callsite c ON c.id = up.id) "
     "SELECT c.* FROM stack_profile_callsite c JOIN up ON up.id = c.id ORDER BY c.depth"},
    {"experimental_ancestor_stack_profile_callsite",
     "SELECT * FROM ancestor_stack_profile_callsite(?1)"},
};

static void function_free(void *userdata)
{
    struct table_function *function = userdata;
    for (int i = 0; i < function->n_arguments; i++)
        sqlite3_free(function->names[i]);
    free(function->userdata);
    sqlite3_free(function->name);
    sqlite3_free(function->sql);
    sqlite3_free(function);
}

static int declare(sqlite3 *handle, const struct table_function *function, int *ret_n_columns,
                   char **ret_error)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle, function->sql, -1, &statement, NULL);
    if (code != SQLITE_OK) {
        *ret_error = sqlite3_mprintf("%s", sqlite3_errmsg(handle));
        return code;
    }
    sqlite3_str *sql = sqlite3_str_new(handle);
    int n = sqlite3_column_count(statement);
    sqlite3_str_appendall(sql, "CREATE TABLE x(");
    for (int i = 0; i < n; i++)
        sqlite3_str_appendf(sql, "%s\"%w\"", i ? "," : "", sqlite3_column_name(statement, i));
    for (int i = 0; i < function->n_arguments; i++)
        if (function->names[i])
            sqlite3_str_appendf(sql, ",\"in_%w\" HIDDEN", function->names[i]);
        else
            sqlite3_str_appendf(sql, ",\"in_%d\" HIDDEN", i + 1);
    sqlite3_str_appendall(sql, ")");
    char *text = sqlite3_str_finish(sql);
    code = text ? sqlite3_declare_vtab(handle, text) : SQLITE_NOMEM;
    sqlite3_free(text);
    sqlite3_finalize(statement);
    if (code == SQLITE_OK)
        *ret_n_columns = n;
    return code;
}

static int table_connect(sqlite3 *handle, void *userdata, int argc, const char *const *argv,
                         sqlite3_vtab **ret, char **ret_error)
{
    (void)argc;
    (void)argv;
    struct table *table = sqlite3_malloc(sizeof(*table));
    if (!table)
        return SQLITE_NOMEM;
    *table = (struct table){.handle = handle, .function = userdata};
    int code = declare(handle, userdata, &table->n_columns, ret_error);
    if (code != SQLITE_OK) {
        sqlite3_free(table);
        return code;
    }
    *ret = &table->base;
    return SQLITE_OK;
}

static int table_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

// Refuses a plan that lacks an argument. SQLite also asks for such plans, and takes another plan if
// there is one.
static int arguments_missing(sqlite3_vtab *base, const struct table *table,
                             const sqlite3_index_info *info)
{
    if (info->nConstraint)
        return SQLITE_CONSTRAINT;
    const char *name = table->function->name;
    int n = table->function->n_arguments;
    base->zErrMsg = sqlite3_mprintf("%s is a function of %d argument%s: write FROM %s(%s)", name, n,
                                    n == 1 ? "" : "s", name, n == 1 ? "value" : "value, ...");
    return SQLITE_ERROR;
}

// Accepts a plan in which every argument is given.
static int table_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct table *table = (const struct table *)base;
    int found[ARGUMENTS_MAX] = {0};
    for (int i = 0; i < info->nConstraint; i++) {
        int argument = info->aConstraint[i].iColumn - table->n_columns;
        if (argument < 0 || info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (!info->aConstraint[i].usable)
            return SQLITE_CONSTRAINT;
        info->aConstraintUsage[i].argvIndex = argument + 1;
        info->aConstraintUsage[i].omit = 1;
        found[argument] = 1;
    }
    for (int i = 0; i < table->function->n_arguments; i++)
        if (!found[i])
            return arguments_missing(base, table, info);
    info->estimatedCost = 1000;
    info->estimatedRows = 100;
    return SQLITE_OK;
}

static int cursor_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
    (void)base;
    struct cursor *cursor = sqlite3_malloc(sizeof(*cursor));
    if (!cursor)
        return SQLITE_NOMEM;
    *cursor = (struct cursor){0};
    *ret = &cursor->base;
    return SQLITE_OK;
}

static int cursor_close(sqlite3_vtab_cursor *base)
{
    sqlite3_finalize(((struct cursor *)base)->statement);
    sqlite3_free(base);
    return SQLITE_OK;
}

// Makes SQLite's last error the error of the table.
static int table_fail(sqlite3_vtab *base, int code)
{
    const struct table *table = (const struct table *)base;
    const struct table_function *function = table->function;
    sqlite3_free(base->zErrMsg);
    base->zErrMsg = sqlite3_mprintf("%s", sqlite3_errmsg(table->handle));
    if (function->on_failure)
        function->on_failure(function->userdata);
    return code;
}

static int cursor_next(sqlite3_vtab_cursor *base)
{
    struct cursor *cursor = (struct cursor *)base;
    int code = sqlite3_step(cursor->statement);
    cursor->at_end = code != SQLITE_ROW;
    cursor->row++;
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return SQLITE_OK;
    return table_fail(base->pVtab, code);
}

static int cursor_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                         sqlite3_value **argv)
{
    (void)number;
    (void)text;
    struct cursor *cursor = (struct cursor *)base;
    const struct table *table = (const struct table *)base->pVtab;
    int code = SQLITE_OK;
    if (!cursor->statement)
        code =
            sqlite3_prepare_v2(table->handle, table->function->sql, -1, &cursor->statement, NULL);
    if (code != SQLITE_OK)
        return table_fail(base->pVtab, code);
    sqlite3_reset(cursor->statement);
    for (int i = 0; i < argc; i++)
        sqlite3_bind_value(cursor->statement, i + 1, argv[i]);
    cursor->row = -1;
    return cursor_next(base);
}

static int cursor_eof(sqlite3_vtab_cursor *base)
{
    return ((struct cursor *)base)->at_end;
}

static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct cursor *cursor = (const struct cursor *)base;
    if (column < ((const struct table *)base->pVtab)->n_columns)
        sqlite3_result_value(context, sqlite3_column_value(cursor->statement, column));
    return SQLITE_OK;
}

static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
    *ret = ((struct cursor *)base)->row;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .xConnect = table_connect,
    .xBestIndex = table_best_index,
    .xDisconnect = table_disconnect,
    .xDestroy = table_disconnect,
    .xOpen = cursor_open,
    .xClose = cursor_close,
    .xFilter = cursor_filter,
    .xNext = cursor_next,
    .xEof = cursor_eof,
    .xColumn = cursor_column,
    .xRowid = cursor_rowid,
};

static struct table_function *function_new(const char *name, const char *sql, int n_arguments,
                                           const struct table_function_extra *extra)
{
    struct table_function *function = sqlite3_malloc(sizeof(*function));
    if (!function)
        return NULL;
    *function = (struct table_function){.name = sqlite3_mprintf("%s", name),
                                        .sql = sqlite3_mprintf("%s", sql),
                                        .n_arguments = n_arguments,
                                        .on_failure = extra->on_failure};
    bool is_whole = function->name && function->sql;
    for (int i = 0; i < n_arguments && extra->names; i++)
        is_whole &= (function->names[i] = sqlite3_mprintf("%s", extra->names[i])) != NULL;
    if (!is_whole) {
        function_free(function);
        return NULL;
    }
    function->userdata = extra->userdata;
    return function;
}

int table_function_add_extra(sqlite3 *handle, const char *name, const char *sql, int n_arguments,
                             const struct table_function_extra *extra)
{
    struct table_function *function =
        n_arguments <= ARGUMENTS_MAX ? function_new(name, sql, n_arguments, extra) : NULL;
    if (!function) {
        free(extra->userdata);
        return n_arguments > ARGUMENTS_MAX ? SQLITE_RANGE : SQLITE_NOMEM;
    }
    return sqlite3_create_module_v2(handle, name, &module, function, function_free);
}

int table_function_add(sqlite3 *handle, const char *name, const char *sql, int n_arguments)
{
    const struct table_function_extra none = {0};
    return table_function_add_extra(handle, name, sql, n_arguments, &none);
}

int table_functions_register(sqlite3 *handle)
{
    int code = SQLITE_OK;
    size_t n = ELEMENTS(table_functions);
    for (size_t i = 0; i < n && code == SQLITE_OK; i++)
        code = table_function_add(handle, table_functions[i].name, table_functions[i].sql, 1);
    static int (*const families[])(sqlite3 * handle) = {
        span_join_register,
        value_table_register,
        interval_functions_register,
        overlap_functions_register,
        cycle_functions_register,
        slice_value_functions_register,
        percentile_functions_register,
        graph_value_functions_register,
        graph_walk_functions_register,
        graph_scan_functions_register,
        dominator_functions_register,
        tree_functions_register,
        forest_functions_register,
        critical_path_functions_register,
        thread_span_functions_register,
        stack_functions_register,
        profile_function_register,
        table_info_register,
        slice_layout_register,
        flow_functions_register,
        annotated_stack_register,
        flame_functions_register,
        args_table_register,
        sorted_aggregate_register,
        experimental_flamegraph_register,
        hash_groups_register,
    };
    for (size_t i = 0; i < ELEMENTS(families) && code == SQLITE_OK; i++)
        code = families[i](handle);
    return code;
}
