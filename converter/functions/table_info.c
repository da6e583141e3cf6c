// SPDX-License-Identifier: Apache-2.0
//
// perfetto_table_info: the columns of a table, with the types in which Perfetto would store them.
// SQLite's columns have no types, so the rows are read: a column of whole numbers has the narrowest
// type that holds all of them.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "converter/functions/functions.h"

SQLITE_EXTENSION_INIT3

// The values of `sorted` in perfetto_table_info.
enum { SORTED_AS_ID, SORTED_AS_SET_ID, SORTED, UNSORTED };

struct column {
    bool has_null, has_real, has_text, has_blob;
    int64_t n, least, most; // values that are not NULL; least and greatest whole number
    int64_t last;
    double last_real;
    char *last_text; // owned
    bool is_id, is_set_id, is_sorted;
};

static void columns_free(struct column *columns, int n)
{
    for (int i = 0; columns && i < n; i++)
        free(columns[i].last_text);
    free(columns);
}

static void integer_add(struct column *column, int64_t value)
{
    bool is_first = column->n == 0;
    column->is_id &= value == column->n;
    column->is_set_id &= value == column->n || (!is_first && value == column->last);
    column->least = is_first || value < column->least ? value : column->least;
    column->most = is_first || value > column->most ? value : column->most;
    column->last = value;
}

// Adds a text. Returns false if memory ran out.
static bool text_add(struct column *column, const char *text)
{
    char *copy = text ? strdup(text) : NULL;
    if (!copy)
        return false;
    column->is_sorted &= !column->last_text || strcmp(column->last_text, copy) <= 0;
    free(column->last_text);
    column->last_text = copy;
    return true;
}

static bool value_add(struct column *column, sqlite3_stmt *statement, int index)
{
    bool good = true;
    int type = sqlite3_column_type(statement, index);
    if (type == SQLITE_NULL) {
        column->has_null = true;
        return true;
    }
    if (type == SQLITE_INTEGER)
        integer_add(column, sqlite3_column_int64(statement, index));
    if (type == SQLITE_TEXT) {
        good = text_add(column, (const char *)sqlite3_column_text(statement, index));
    } else {
        double real = sqlite3_column_double(statement, index);
        column->is_sorted &= column->n == 0 || column->last_real <= real;
        column->last_real = real;
    }
    column->has_real |= type == SQLITE_FLOAT;
    column->has_text |= type == SQLITE_TEXT;
    column->has_blob |= type == SQLITE_BLOB;
    column->n++;
    return good;
}

static const char *type_name(const struct column *column)
{
    if (column->has_blob)
        return "bytes";
    if (column->has_text)
        return "string";
    if (column->has_real)
        return "double";
    if (column->n && column->is_id && !column->has_null)
        return "id";
    if (column->n == 0 || (column->least >= 0 && column->most <= UINT32_MAX))
        return "uint32";
    return column->least >= INT32_MIN && column->most <= INT32_MAX ? "int32" : "int64";
}

static int sort_state(const struct column *column)
{
    bool is_integer = !column->has_real && !column->has_text && !column->has_blob;
    if (column->has_null || !column->n || column->has_blob)
        return UNSORTED;
    if (is_integer && column->is_id)
        return SORTED_AS_ID;
    if (is_integer && column->is_set_id)
        return SORTED_AS_SET_ID;
    return column->is_sorted ? SORTED : UNSORTED;
}

// Reads all rows. Returns SQLite's code.
static int rows_read(sqlite3_stmt *statement, struct column *columns, int n)
{
    int code;
    for (int i = 0; i < n; i++)
        columns[i].is_id = columns[i].is_set_id = columns[i].is_sorted = true;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW)
        for (int i = 0; i < n; i++)
            if (!value_add(&columns[i], statement, i))
                return SQLITE_NOMEM;
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

// Returns whether a statement has created the table. Such a table has a number for each row, which
// * does not show.
static bool has_row_ids(sqlite3 *handle, const char *name)
{
    sqlite3_stmt *statement = NULL;
    bool ret = sqlite3_prepare_v2(handle,
                                  "SELECT 1 FROM sqlite_temp_schema WHERE type = 'table' AND "
                                  "name = ?1 COLLATE NOCASE",
                                  -1, &statement, NULL) == SQLITE_OK &&
               sqlite3_bind_text(statement, 1, name, -1, SQLITE_TRANSIENT) == SQLITE_OK &&
               sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    return ret;
}

static void name_add(sqlite3_str *out, const char *name)
{
    for (; *name; name++)
        if (*name == '"' || *name == '\\')
            sqlite3_str_appendf(out, "\\%c", *name);
        else if ((unsigned char)*name < ' ')
            sqlite3_str_appendf(out, "\\u%04x", *name);
        else
            sqlite3_str_appendchar(out, 1, *name);
}

static void columns_result(sqlite3_context *context, sqlite3_stmt *statement,
                           const struct column *columns, int n, bool has_ids)
{
    sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
    for (int i = 0; i < n; i++) {
        sqlite3_str_appendall(out, i ? ",[\"" : "[[\"");
        name_add(out, sqlite3_column_name(statement, i));
        sqlite3_str_appendf(out, "\",\"%s\",%d,%d]", type_name(&columns[i]), columns[i].has_null,
                            sort_state(&columns[i]));
    }
    sqlite3_str_appendall(out, has_ids ? ",[\"_auto_id\",\"id\",0,0]]" : "]");
    string_result(context, out);
}

// Returns [["name", "type", nullable, sorted], ...].
static void table_info(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *name = (const char *)sqlite3_value_text(argv[0]);
    sqlite3 *handle = sqlite3_context_db_handle(context);
    sqlite3_stmt *statement = NULL;
    if (!name || sqlite3_value_type(argv[0]) != SQLITE_TEXT) {
        sqlite3_result_error(context, "perfetto_table_info: the name of a table is expected", -1);
        return;
    }
    char *sql = sqlite3_mprintf("SELECT * FROM \"%w\"", name);
    int code = sql ? sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) : SQLITE_NOMEM;
    int n = code == SQLITE_OK ? sqlite3_column_count(statement) : 0;
    struct column *columns = n ? calloc((size_t)n, sizeof(*columns)) : NULL;
    if (code == SQLITE_OK)
        code = columns ? rows_read(statement, columns, n) : SQLITE_NOMEM;
    if (code == SQLITE_OK)
        columns_result(context, statement, columns, n, has_row_ids(handle, name));
    else if (code == SQLITE_NOMEM)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_error(context, sqlite3_errmsg(handle), -1);
    columns_free(columns, n);
    sqlite3_finalize(statement);
    sqlite3_free(sql);
}

int table_info_register(sqlite3 *handle)
{
    static const char rows[] =
        "SELECT key AS id, ?1 AS table_name, json_extract(value, '$[0]') AS name, "
        "json_extract(value, '$[1]') AS col_type, json_extract(value, '$[2]') AS nullable, "
        "json_extract(value, '$[3]') AS sorted FROM json_each(__mmsql_table_info(?1))";
    int code = sqlite3_create_function_v2(handle, "__mmsql_table_info", 1, SQLITE_UTF8, NULL,
                                          table_info, NULL, NULL, NULL);
    return code == SQLITE_OK ? table_function_add(handle, "perfetto_table_info", rows, 1) : code;
}
