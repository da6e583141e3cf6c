// SPDX-License-Identifier: Apache-2.0
//
// Aggregates over sorted rows, for versions of SQLite without ORDER BY in aggregates:
//
//     __mmsql_sorted('group_concat', 2, __mmsql_sort('2a-l=', name, ',', dur))
//
// is group_concat(name, ',' ORDER BY dur DESC). The first argument of __mmsql_sort has the number
// of arguments, 'd' if only different values count, and three letters for each key: its direction,
// the place of NULL, and its collation. The arguments and the keys follow.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "converter/functions/functions.h"
#include "converter/functions/value_order.h"
#include "converter/functions/value_table.h"

SQLITE_EXTENSION_INIT3

#define COLUMNS_MAX 32 // of a table that is a value

struct sorted_rows {
    int n_arguments, n_values; // n_values: arguments and keys
    bool is_distinct;
    char *form;              // owned; of the keys
    struct value_vec values; // owned; by row
    size_t n_rows;
};

static void rows_free(struct sorted_rows *rows)
{
    vec_foreach(&rows->values, value)
        sqlite3_value_free(*value);
    value_vec_done(&rows->values);
    free(rows->form);
    free(rows);
}

static bool form_read(struct sorted_rows *rows, int argc, sqlite3_value *form)
{
    char *end = NULL;
    const char *text = (const char *)sqlite3_value_text(form);
    long n = text ? strtol(text, &end, 10) : -1;
    rows->n_values = argc - 1;
    if (n < 0 || n >= argc || n > COLUMNS_MAX || (*end != 'a' && *end != 'd') ||
        strlen(end + 1) != 3 * (size_t)(rows->n_values - n))
        return false;
    rows->n_arguments = (int)n;
    rows->is_distinct = *end == 'd';
    rows->form = strdup(end + 1);
    return rows->form;
}

static void sort_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct sorted_rows *rows = aggregate_get(context, sizeof(*rows));
    if (!rows)
        return;
    if (!rows->form && (argc < 1 || !form_read(rows, argc, argv[0]))) {
        sqlite3_result_error(context, "an aggregate with ORDER BY has too many arguments", -1);
        return;
    }
    for (int i = 1; i < argc; i++) {
        sqlite3_value *copy = sqlite3_value_dup(argv[i]);
        if (!copy || value_vec_push(&rows->values, copy) < 0) {
            sqlite3_value_free(copy);
            sqlite3_result_error_nomem(context);
            return;
        }
    }
    rows->n_rows++;
}

// A row, and its number among the others: equal rows keep their order.
struct row {
    const struct sorted_rows *rows;
    const struct value_key *keys; // the first argument, then the keys of the order
    size_t number;
};

static int by_number(const struct row *a, const struct row *b)
{
    return a->number < b->number ? -1 : a->number > b->number;
}

static int by_first_value(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    int order = value_keys_compare(a->keys, b->keys, '=');
    return order ? order : by_number(a, b);
}

static int by_keys(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    const char *form = a->rows->form;
    int n = a->rows->n_values - a->rows->n_arguments;
    for (int i = 1; i <= n; i++, form += 3) {
        const struct value_key *x = &a->keys[i], *y = &b->keys[i];
        bool x_is_null = x->type == SQLITE_NULL, y_is_null = y->type == SQLITE_NULL;
        int order = x_is_null || y_is_null
                        ? (form[1] == 'f' ? y_is_null - x_is_null : x_is_null - y_is_null)
                        : value_keys_compare(x, y, form[2]) * (form[0] == '-' ? -1 : 1);
        if (order)
            return order;
    }
    return by_number(a, b);
}

// Keeps only the first row of each distinct first argument. Returns the number of rows.
static size_t rows_distinct(struct row *rows, size_t n)
{
    size_t kept = 0;
    qsort(rows, n, sizeof(*rows), by_first_value);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || value_keys_compare(rows[kept - 1].keys, rows[i].keys, '=') != 0)
            rows[kept++] = rows[i];
    return kept;
}

// Makes the rows, and their keys in `keys`.
static void rows_make(const struct sorted_rows *from, struct value_key *keys, struct row *rows)
{
    int n_keys = from->n_values - from->n_arguments;
    for (size_t i = 0; i < from->n_rows; i++) {
        sqlite3_value **values = from->values.items + i * (size_t)from->n_values;
        rows[i] = (struct row){from, keys, i};
        *keys++ =
            from->n_arguments ? value_key_read(values[0]) : (struct value_key){.type = SQLITE_NULL};
        for (int j = 0; j < n_keys; j++)
            *keys++ = value_key_read(values[from->n_arguments + j]);
    }
}

// Sets the name of a column, which is its number.
static void column_name(int column, char ret[64])
{
    sqlite3_snprintf(64, ret, "%d", column);
}

// Returns a new table, or NULL if memory ran out.
static struct value_table *table_new(int n_columns)
{
    struct value_table *table = value_table_new(n_columns, NULL);
    for (int i = 0; table && i < n_columns; i++)
        column_name(i, table->columns[i].name);
    return table;
}

// Makes a table of the sorted rows. Takes ownership of the values. Returns NULL if memory ran out.
static struct value_table *table_make(struct sorted_rows *rows)
{
    size_t n = rows->n_rows, n_keys = (size_t)(rows->n_values - rows->n_arguments) + 1;
    struct row *sorted = calloc(n + 1, sizeof(*sorted));
    struct value_key *keys = calloc(n * n_keys + 1, sizeof(*keys));
    // A table has at least one column.
    struct value_table *table = table_new(rows->n_arguments ? rows->n_arguments : 1);
    bool is_whole = sorted && keys && table;
    if (is_whole) {
        rows_make(rows, keys, sorted);
        n = rows->is_distinct && rows->n_arguments ? rows_distinct(sorted, n) : n;
        qsort(sorted, n, sizeof(*sorted), by_keys);
        for (size_t i = 0; i < n; i++)
            for (int column = 0; column < rows->n_arguments; column++)
                value_table_add_value(
                    table, column,
                    rows->values.items[sorted[i].number * (size_t)rows->n_values + (size_t)column]);
        table->n_rows = n;
        table->kept = rows->values;
        rows->values = (struct value_vec){0};
    } else {
        value_table_free(table);
        table = NULL;
    }
    free(keys);
    free(sorted);
    return table;
}

static void sort_final(sqlite3_context *context)
{
    struct sorted_rows *rows = aggregate_take(context);
    if (!rows)
        return;
    if (rows->form)
        value_table_result(context, table_make(rows));
    rows_free(rows);
}

static void statement_free(void *statement)
{
    sqlite3_finalize(statement);
}

static bool is_aggregate(sqlite3 *handle, const char *name, int n)
{
    static const char sql[] = "SELECT 1 FROM pragma_function_list WHERE name = lower(?1) AND type "
                              "IN ('a', 'w') AND narg IN (?2, -1)";
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) != SQLITE_OK)
        return true; // this SQLite lacks the list of functions
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_int(statement, 2, n);
    bool found = sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    return found;
}

// Returns the query: SELECT name(c0, c1) FROM __intrinsic_table_ptr(?1) WHERE ...
static char *query_text(sqlite3 *handle, const char *name, int n)
{
    sqlite3_str *sql = sqlite3_str_new(handle);
    sqlite3_str_appendf(sql, "SELECT \"%w\"(%s", name, n ? "" : "*");
    for (int i = 0; i < n; i++)
        sqlite3_str_appendf(sql, "%sc%d", i ? ", " : "", i);
    sqlite3_str_appendall(sql, ") FROM __intrinsic_table_ptr(?1) WHERE "
                               "__intrinsic_table_ptr_bind(c0, '0')");
    for (int i = 1; i < n; i++)
        sqlite3_str_appendf(sql, " AND __intrinsic_table_ptr_bind(c%d, '%d')", i, i);
    return sqlite3_str_finish(sql);
}

// Returns the query, which is kept for all groups of the statement, because all groups have the
// same name.
static sqlite3_stmt *query_get(sqlite3_context *context, sqlite3_value **argv)
{
    sqlite3_stmt *statement = sqlite3_get_auxdata(context, 0);
    sqlite3 *handle = sqlite3_context_db_handle(context);
    const char *name = (const char *)sqlite3_value_text(argv[0]);
    int n = sqlite3_value_int(argv[1]);
    if (statement || !name)
        return statement;
    if (n < 0 || n > COLUMNS_MAX || !is_aggregate(handle, name, n)) {
        char *why = sqlite3_mprintf("%s() with ORDER BY: there is no aggregate of that name with "
                                    "%d arguments",
                                    name, n);
        sqlite3_result_error(context, why ? why : "out of memory", -1);
        sqlite3_free(why);
        return NULL;
    }
    char *sql = query_text(handle, name, n);
    int code = sql ? sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (code != SQLITE_OK) {
        sqlite3_result_error(context, sqlite3_errmsg(handle), -1);
        return NULL;
    }
    sqlite3_set_auxdata(context, 0, statement, statement_free);
    return sqlite3_get_auxdata(context, 0);
}

// SQL arguments: (name of the aggregate, number of its arguments, table of __mmsql_sort)
static void sorted(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct value_column columns[COLUMNS_MAX] = {0};
    struct value_table none = {.n_columns = COLUMNS_MAX, .columns = columns};
    struct value_table *table = sqlite3_value_pointer(argv[2], VALUE_TABLE);
    sqlite3_stmt *statement = query_get(context, argv);
    if (!statement)
        return;
    for (int i = 0; !table && i < COLUMNS_MAX; i++)
        column_name(i, columns[i].name);
    sqlite3_bind_pointer(statement, 1, table ? table : &none, VALUE_TABLE, NULL);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        sqlite3_value *value = sqlite3_column_value(statement, 0);
        sqlite3_result_value(context, value);
        sqlite3_result_subtype(context, sqlite3_value_subtype(value));
    } else {
        sqlite3_result_error(context, sqlite3_errmsg(sqlite3_context_db_handle(context)), -1);
    }
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}

int sorted_aggregate_register(sqlite3 *handle)
{
    static const struct value_function functions[] = {
        {.name = "__mmsql_sorted", .n_arguments = 3, .call = sorted},
        {.name = "__mmsql_sort", .n_arguments = -1, .step = sort_step, .final = sort_final},
    };
    return value_functions_add(handle, functions, ELEMENTS(functions));
}
