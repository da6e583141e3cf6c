// SPDX-License-Identifier: Apache-2.0
//
// The virtual table has as many nameless columns as a value may have. The functions that bind them
// to names are constraints, so SQLite gives the names when it asks for rows.
#include "converter/functions/value_table.h"

#include <stdlib.h>

#include "common/elements.h"

SQLITE_EXTENSION_INIT3

#define COLUMNS_MAX  32
#define BIND         (SQLITE_INDEX_CONSTRAINT_FUNCTION + 1)
#define COLUMN_TABLE COLUMNS_MAX

struct value_table *value_table_new(int n_columns, const char *const *names)
{
    struct value_table *table = calloc(1, sizeof(*table));
    if (table)
        table->columns = calloc((size_t)n_columns, sizeof(*table->columns));
    if (!table || !table->columns) {
        free(table);
        return NULL;
    }
    table->n_columns = n_columns;
    for (int i = 0; i < n_columns; i++)
        sqlite3_snprintf(sizeof(table->columns[i].name), table->columns[i].name, "%s",
                         names ? names[i] : "");
    return table;
}

void value_table_free(void *userdata)
{
    struct value_table *table = userdata;
    if (!table)
        return;
    for (int i = 0; i < table->n_columns; i++) {
        int64_vec_done(&table->columns[i].ints);
        double_vec_done(&table->columns[i].reals);
        value_vec_done(&table->columns[i].values);
        byte_vec_done(&table->columns[i].nulls);
    }
    vec_foreach(&table->kept, value)
        sqlite3_value_free(*value);
    value_vec_done(&table->kept);
    free(table->columns);
    free(table);
}

static size_t column_size(const struct value_column *column)
{
    switch (column->kind) {
    case VALUES_INT:
        return column->ints.n;
    case VALUES_REAL:
        return column->reals.n;
    case VALUES_ANY:
        return column->values.n;
    default:
        return column->nulls.n;
    }
}

// Sets the kind of a column at its first value, and adds places for the NULLs before this value.
static bool kind_set(struct value_column *column, enum value_column_kind kind)
{
    if (column->kind != VALUES_NULL)
        return column->kind == kind;
    column->kind = kind;
    for (size_t i = 0; i < column->nulls.n; i++)
        if ((kind == VALUES_INT    ? int64_vec_push(&column->ints, 0)
             : kind == VALUES_REAL ? double_vec_push(&column->reals, 0)
                                   : value_vec_push(&column->values, NULL)) < 0)
            return false;
    return true;
}

void value_table_add_int(struct value_table *table, int column, int64_t value)
{
    struct value_column *to = &table->columns[column];
    table->failed |= !kind_set(to, VALUES_INT) || int64_vec_push(&to->ints, value) < 0;
}

void value_table_add_real(struct value_table *table, int column, double value)
{
    struct value_column *to = &table->columns[column];
    table->failed |= !kind_set(to, VALUES_REAL) || double_vec_push(&to->reals, value) < 0;
}

void value_table_add_value(struct value_table *table, int column, sqlite3_value *value)
{
    struct value_column *to = &table->columns[column];
    table->failed |= !kind_set(to, VALUES_ANY) || value_vec_push(&to->values, value) < 0;
}

void value_table_add_null(struct value_table *table, int column)
{
    struct value_column *to = &table->columns[column];
    size_t n = column_size(to);
    while (to->nulls.n < n && !table->failed)
        table->failed = byte_vec_push(&to->nulls, 0) < 0;
    table->failed |= byte_vec_push(&to->nulls, 1) < 0;
    if (to->kind == VALUES_INT)
        table->failed |= int64_vec_push(&to->ints, 0) < 0;
    else if (to->kind == VALUES_REAL)
        table->failed |= double_vec_push(&to->reals, 0) < 0;
    else if (to->kind == VALUES_ANY)
        table->failed |= value_vec_push(&to->values, NULL) < 0;
}

sqlite3_value *value_table_keep(struct value_table *table, const sqlite3_value *value)
{
    sqlite3_value *copy = sqlite3_value_dup(value);
    if (copy && value_vec_push(&table->kept, copy) == 0)
        return copy;
    sqlite3_value_free(copy);
    table->failed = true;
    return NULL;
}

void value_table_result(sqlite3_context *context, struct value_table *table)
{
    if (table && !table->failed) {
        sqlite3_result_pointer(context, table, VALUE_TABLE, value_table_free);
        return;
    }
    value_table_free(table);
    sqlite3_result_error_nomem(context);
}

void *aggregate_get(sqlite3_context *context, size_t size)
{
    void **place = sqlite3_aggregate_context(context, sizeof(*place));
    if (place && !*place)
        *place = calloc(1, size);
    if (!place || !*place)
        sqlite3_result_error_nomem(context);
    return place ? *place : NULL;
}

void *aggregate_take(sqlite3_context *context)
{
    void **place = sqlite3_aggregate_context(context, 0);
    void *ret = place ? *place : NULL;
    if (place)
        *place = NULL;
    return ret;
}

void aggregate_result(sqlite3_context *context, const char *type, void (*destroy)(void *))
{
    void *value = aggregate_take(context);
    if (value)
        sqlite3_result_pointer(context, value, type, destroy);
}

int value_functions_add(sqlite3 *handle, const struct value_function *functions, size_t n)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < n && code == SQLITE_OK; i++)
        code = sqlite3_create_function_v2(handle, functions[i].name, functions[i].n_arguments,
                                          SQLITE_UTF8, NULL, functions[i].call, functions[i].step,
                                          functions[i].final, NULL);
    return code;
}

// -- the virtual table --

struct pointer_cursor {
    sqlite3_vtab_cursor base;
    const struct value_table *table; // borrowed: the value outlives the scan
    int bound[COLUMNS_MAX];          // by column of the virtual table: the column of the table
    size_t row;
};

static int pointer_connect(sqlite3 *handle, void *userdata, int argc, const char *const *argv,
                           sqlite3_vtab **ret, char **ret_error)
{
    (void)userdata, (void)argc, (void)argv, (void)ret_error;
    sqlite3_str *sql = sqlite3_str_new(handle);
    sqlite3_str_appendall(sql, "CREATE TABLE x(");
    for (int i = 0; i < COLUMNS_MAX; i++)
        sqlite3_str_appendf(sql, "c%d, ", i);
    sqlite3_str_appendall(sql, "tab HIDDEN)");
    char *text = sqlite3_str_finish(sql);
    int code = text ? sqlite3_declare_vtab(handle, text) : SQLITE_NOMEM;
    sqlite3_free(text);
    if (code != SQLITE_OK)
        return code;
    *ret = sqlite3_malloc(sizeof(**ret));
    if (!*ret)
        return SQLITE_NOMEM;
    **ret = (sqlite3_vtab){0};
    return SQLITE_OK;
}

static int pointer_disconnect(sqlite3_vtab *vtab)
{
    sqlite3_free(vtab);
    return SQLITE_OK;
}

static int fail(sqlite3_vtab *vtab, const char *format, const char *name)
{
    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = sqlite3_mprintf(format, name);
    return SQLITE_ERROR;
}

// Chooses the arguments of xFilter: the table, then the names of the columns c0, c1, ...
static int pointer_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    int n_bound = 0, last = -1;
    bool has_table = false;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *in = &info->aConstraint[i];
        struct sqlite3_index_constraint_usage *out = &info->aConstraintUsage[i];
        bool is_table = in->iColumn == COLUMN_TABLE && in->op == SQLITE_INDEX_CONSTRAINT_EQ;
        bool is_bind = in->op == BIND && in->iColumn >= 0 && in->iColumn < COLUMNS_MAX;
        if (is_table && !in->usable)
            return SQLITE_CONSTRAINT;
        if (!in->usable || (!is_table && !is_bind))
            continue;
        out->argvIndex = is_table ? 1 : 2 + in->iColumn;
        out->omit = 1;
        has_table |= is_table;
        n_bound += is_bind;
        last = is_bind && in->iColumn > last ? in->iColumn : last;
    }
    if (!has_table)
        return fail(vtab, "__intrinsic_table_ptr: %s", "the table is missing");
    if (n_bound == 0 || last != n_bound - 1)
        return fail(vtab, "__intrinsic_table_ptr: %s",
                    "the bound columns must be c0, c1 and so on, each once");
    info->estimatedCost = 10000;
    info->estimatedRows = 10000;
    return SQLITE_OK;
}

static int pointer_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
    (void)vtab;
    struct pointer_cursor *cursor = sqlite3_malloc(sizeof(*cursor));
    if (!cursor)
        return SQLITE_NOMEM;
    *cursor = (struct pointer_cursor){0};
    *ret = &cursor->base;
    return SQLITE_OK;
}

static int pointer_close(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int column_find(const struct value_table *table, const char *name)
{
    for (int i = 0; i < table->n_columns; i++)
        if (sqlite3_stricmp(table->columns[i].name, name) == 0)
            return i;
    return -1;
}

static int pointer_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                          sqlite3_value **argv)
{
    (void)number, (void)text;
    struct pointer_cursor *cursor = (struct pointer_cursor *)base;
    cursor->table = argc > 0 ? sqlite3_value_pointer(argv[0], VALUE_TABLE) : NULL;
    cursor->row = 0;
    if (!cursor->table)
        return fail(base->pVtab, "__intrinsic_table_ptr: %s", "the value is not a table");
    for (int i = 1; i < argc && i <= COLUMNS_MAX; i++) {
        const char *name = (const char *)sqlite3_value_text(argv[i]);
        cursor->bound[i - 1] = name ? column_find(cursor->table, name) : -1;
        if (cursor->bound[i - 1] < 0)
            return fail(base->pVtab, "__intrinsic_table_ptr: the table has no column %s",
                        name ? name : "NULL");
    }
    return SQLITE_OK;
}

static int pointer_next(sqlite3_vtab_cursor *base)
{
    ((struct pointer_cursor *)base)->row++;
    return SQLITE_OK;
}

static int pointer_eof(sqlite3_vtab_cursor *base)
{
    const struct pointer_cursor *cursor = (const struct pointer_cursor *)base;
    return cursor->row >= cursor->table->n_rows;
}

static int pointer_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int n)
{
    const struct pointer_cursor *cursor = (const struct pointer_cursor *)base;
    if (n >= COLUMNS_MAX)
        return SQLITE_OK;
    const struct value_column *column = &cursor->table->columns[cursor->bound[n]];
    size_t row = cursor->row;
    if (row >= column_size(column) || (row < column->nulls.n && column->nulls.items[row]))
        return SQLITE_OK;
    if (column->kind == VALUES_INT)
        sqlite3_result_int64(context, column->ints.items[row]);
    else if (column->kind == VALUES_REAL)
        sqlite3_result_double(context, column->reals.items[row]);
    else if (column->kind == VALUES_ANY && column->values.items[row])
        sqlite3_result_value(context, column->values.items[row]);
    return SQLITE_OK;
}

static int pointer_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
    *ret = (sqlite3_int64)((struct pointer_cursor *)base)->row;
    return SQLITE_OK;
}

static void bind_true(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc, (void)argv;
    sqlite3_result_int(context, 1);
}

static int pointer_function(sqlite3_vtab *vtab, int argc, const char *name,
                            void (**ret)(sqlite3_context *, int, sqlite3_value **), void **ret_data)
{
    (void)vtab, (void)ret_data;
    if (argc != 2 || sqlite3_stricmp(name, "__intrinsic_table_ptr_bind") != 0)
        return 0;
    *ret = bind_true;
    return BIND;
}

static const sqlite3_module pointer_module = {
    .xConnect = pointer_connect,
    .xBestIndex = pointer_best_index,
    .xDisconnect = pointer_disconnect,
    .xDestroy = pointer_disconnect,
    .xOpen = pointer_open,
    .xClose = pointer_close,
    .xFilter = pointer_filter,
    .xNext = pointer_next,
    .xEof = pointer_eof,
    .xColumn = pointer_column,
    .xRowid = pointer_rowid,
    .xFindFunction = pointer_function,
};

int value_table_register(sqlite3 *handle)
{
    int code =
        sqlite3_create_module_v2(handle, "__intrinsic_table_ptr", &pointer_module, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_overload_function(handle, "__intrinsic_table_ptr_bind", 2);
    return code;
}
