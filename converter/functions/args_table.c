// SPDX-License-Identifier: Apache-2.0
//
// A virtual table with the rows of the view args. SQLite flattens the view into a query that joins
// the view. But on the right side of a LEFT JOIN, SQLite computes the whole view first. The virtual
// table finds a set by its id in all joins, and need not choose among all value columns for each
// row. The table is in the schema temp under the same name, so that queries find the table first.
// The views of the database still use the view.
#include "common/elements.h"
#include "converter/functions/arg_sets.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

#define SETS_BITS 20 // bits of an id below the set's id

enum column {
    COLUMN_ID,
    COLUMN_SET,
    COLUMN_FLAT_KEY,
    COLUMN_KEY,
    COLUMN_INT,
    COLUMN_STRING,
    COLUMN_REAL,
    COLUMN_TYPE,
    COLUMN_DISPLAY,
};
static const char declaration[] =
    "CREATE TABLE args(id INTEGER, arg_set_id INTEGER, flat_key TEXT, key TEXT, int_value INTEGER, "
    "string_value TEXT, real_value REAL, value_type TEXT, display_value TEXT)";

// Constraints that xBestIndex found, in the order of xFilter's arguments.
enum { BY_SET = 1, BY_KEY = 2, BY_FLAT_KEY = 4 };

struct args_table {
    sqlite3_vtab base;
    sqlite3 *handle; // borrowed
    double n_sets;   // estimate
};

struct args_cursor {
    sqlite3_vtab_cursor base;
    struct arg_sets *sets;                    // owned
    sqlite3_stmt *scan[BY_KEY | BY_FLAT_KEY]; // owned; index: BY_KEY or 0
    sqlite3_stmt *ids;                        // the present scan; NULL: a single set
    char *key, *flat_key;                     // owned; NULL: any
    int64_t set;
    int index;
    bool at_end;
};

// Runs no statement. If a statement failed here for lack of memory, SQLite would forget all schemas
// and free the table that SQLite is making.
static int table_connect(sqlite3 *handle, void *userdata, int argc, const char *const *argv,
                         sqlite3_vtab **ret, char **ret_error)
{
    (void)argc, (void)argv, (void)ret_error;
    struct args_table *table = sqlite3_malloc(sizeof(*table));
    if (!table)
        return SQLITE_NOMEM;
    *table = (struct args_table){.handle = handle, .n_sets = *(const double *)userdata};
    int code = sqlite3_declare_vtab(handle, declaration);
    if (code != SQLITE_OK) {
        sqlite3_free(table);
        return code;
    }
    *ret = &table->base;
    return SQLITE_OK;
}

// A separate function, because SQLite would take the module's name for a table, too, if xCreate
// were equal to xConnect.
static int table_create(sqlite3 *handle, void *userdata, int argc, const char *const *argv,
                        sqlite3_vtab **ret, char **ret_error)
{
    return table_connect(handle, userdata, argc, argv, ret, ret_error);
}

static int table_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

static bool is_plain(sqlite3_index_info *info, int constraint)
{
    const char *collation = sqlite3_vtab_collation(info, constraint);
    return !collation || sqlite3_stricmp(collation, "BINARY") == 0;
}

static int table_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    static const struct {
        int column, how;
    } known[] = {{COLUMN_SET, BY_SET}, {COLUMN_KEY, BY_KEY}, {COLUMN_FLAT_KEY, BY_FLAT_KEY}};
    int n = 0;
    for (size_t i = 0; i < ELEMENTS(known); i++)
        for (int k = 0; k < info->nConstraint; k++)
            if (info->aConstraint[k].usable && info->aConstraint[k].iColumn == known[i].column &&
                info->aConstraint[k].op == SQLITE_INDEX_CONSTRAINT_EQ &&
                !(info->idxNum & known[i].how) && is_plain(info, k)) {
                info->aConstraintUsage[k].argvIndex = ++n; // SQLite checks the values again
                info->idxNum |= known[i].how;
            }
    bool by_set = info->idxNum & BY_SET, by_key = info->idxNum & ~BY_SET;
    double n_sets = by_set ? 1 : ((const struct args_table *)base)->n_sets;
    if (!by_set && by_key)
        n_sets = n_sets / 8 + 1;
    info->estimatedRows = (sqlite3_int64)(by_key ? n_sets : 4 * n_sets);
    info->estimatedCost = by_set ? 12 : 4 * n_sets + 10;
    return SQLITE_OK;
}

static int cursor_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
    struct args_cursor *cursor = sqlite3_malloc(sizeof(*cursor));
    if (!cursor)
        return SQLITE_NOMEM;
    *cursor = (struct args_cursor){0};
    int code = arg_sets_open(((struct args_table *)base)->handle, &cursor->sets);
    if (code != SQLITE_OK)
        sqlite3_free(cursor);
    else
        *ret = &cursor->base;
    return code;
}

static int cursor_close(sqlite3_vtab_cursor *base)
{
    struct args_cursor *cursor = (struct args_cursor *)base;
    arg_sets_free(cursor->sets);
    for (size_t i = 0; i < ELEMENTS(cursor->scan); i++)
        sqlite3_finalize(cursor->scan[i]);
    sqlite3_free(cursor->key);
    sqlite3_free(cursor->flat_key);
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static bool key_fits(const struct args_cursor *cursor, const struct arg_field *field)
{
    return (!cursor->key || strcmp(cursor->key, field->key) == 0) &&
           (!cursor->flat_key || strcmp(cursor->flat_key, field->flat_key) == 0);
}

// Moves to the first matching row from the current place on.
static int row_find(struct args_cursor *cursor)
{
    for (;;) {
        for (int n = arg_sets_n_fields(cursor->sets); cursor->index < n; cursor->index++)
            if (key_fits(cursor, arg_sets_field(cursor->sets, cursor->index)) &&
                arg_sets_has(cursor->sets, cursor->index))
                return SQLITE_OK;
        int code = cursor->ids ? sqlite3_step(cursor->ids) : SQLITE_DONE;
        if (code != SQLITE_ROW) {
            cursor->at_end = true;
            return code == SQLITE_DONE ? SQLITE_OK : code;
        }
        cursor->set = sqlite3_column_int64(cursor->ids, 0);
        cursor->index = 0;
        code = arg_sets_look(cursor->sets, cursor->set);
        if (code != SQLITE_OK)
            return code;
    }
}

static int cursor_next(sqlite3_vtab_cursor *base)
{
    struct args_cursor *cursor = (struct args_cursor *)base;
    cursor->index++;
    return row_find(cursor);
}

static int scan_begin(struct args_cursor *cursor, int how, sqlite3_value *key)
{
    static const char *const sql[] = {
        [0] = "SELECT id FROM main._arg_set",
        [BY_KEY] = "SELECT id FROM main._arg_set WHERE kind_id IN "
                   "(SELECT kind_id FROM main._arg_field WHERE key = ?1)",
    };
    how &= BY_KEY;
    sqlite3_stmt **scan = &cursor->scan[how];
    int code = *scan ? SQLITE_OK
                     : sqlite3_prepare_v2(((struct args_table *)cursor->base.pVtab)->handle,
                                          sql[how], -1, scan, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_reset(*scan);
    if (how & BY_KEY)
        sqlite3_bind_value(*scan, 1, key);
    cursor->ids = *scan;
    return SQLITE_OK;
}

// Copies the key to search for. *ret_nothing: the value is not a text, so no key is equal to the
// value. A zero byte cuts the key, but SQLite checks the whole value again.
static int key_take(char **key, sqlite3_value *value, bool *ret_nothing)
{
    sqlite3_free(*key);
    *key = NULL;
    if (!value)
        return SQLITE_OK;
    if (sqlite3_value_type(value) != SQLITE_TEXT) {
        *ret_nothing = true;
        return SQLITE_OK;
    }
    *key = sqlite3_mprintf("%s", sqlite3_value_text(value));
    return *key ? SQLITE_OK : SQLITE_NOMEM;
}

static int cursor_filter(sqlite3_vtab_cursor *base, int how, const char *text, int argc,
                         sqlite3_value **argv)
{
    (void)text, (void)argc;
    struct args_cursor *cursor = (struct args_cursor *)base;
    sqlite3_value *set = how & BY_SET ? *argv++ : NULL;
    sqlite3_value *key = how & BY_KEY ? *argv++ : NULL;
    sqlite3_value *flat_key = how & BY_FLAT_KEY ? *argv++ : NULL;
    int type = set ? sqlite3_value_numeric_type(set) : SQLITE_INTEGER;
    bool nothing =
        type != SQLITE_INTEGER &&
        (type != SQLITE_FLOAT || sqlite3_value_double(set) != (double)sqlite3_value_int64(set));
    cursor->at_end = false;
    cursor->ids = NULL;
    cursor->index = 0;
    int code = key_take(&cursor->key, key, &nothing);
    if (code == SQLITE_OK)
        code = key_take(&cursor->flat_key, flat_key, &nothing);
    if (code != SQLITE_OK || nothing) {
        cursor->at_end = true;
        return code;
    }
    if (set) {
        cursor->set = sqlite3_value_int64(set);
        code = arg_sets_look(cursor->sets, cursor->set);
    } else {
        cursor->index = arg_sets_n_fields(cursor->sets); // skips the fields of the last set
        code = scan_begin(cursor, how, key);
    }
    return code == SQLITE_OK ? row_find(cursor) : code;
}

static int cursor_eof(sqlite3_vtab_cursor *base)
{
    return ((struct args_cursor *)base)->at_end;
}

static const char *type_name(int type, bool is_text)
{
    static const char *const names[] = {"int",     "uint", "string", "real",
                                        "pointer", "bool", "json",   "null"};
    if (type < STORED_TEXT && is_text)
        return "string";
    return type >= 0 && type <= STORED_NULL ? names[type] : "real";
}

static void result_printed(sqlite3_context *context, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = sqlite3_vmprintf(format, args);
    va_end(args);
    if (text)
        sqlite3_result_text(context, text, -1, sqlite3_free);
    else
        sqlite3_result_error_nomem(context);
}

static void display_result(sqlite3_context *context, int type, sqlite3_value *value)
{
    int stored = value ? sqlite3_value_type(value) : SQLITE_NULL;
    if (stored == SQLITE_NULL)
        return;
    if (stored == SQLITE_TEXT)
        sqlite3_result_value(context, value);
    else if (type == STORED_REAL)
        result_printed(context, "%!.15g", sqlite3_value_double(value));
    else if (type == STORED_BOOL)
        sqlite3_result_text(context, sqlite3_value_int64(value) ? "true" : "false", -1,
                            SQLITE_STATIC);
    else
        result_printed(context,
                       type == STORED_UINT      ? "%llu"
                       : type == STORED_POINTER ? "0x%llx"
                                                : "%lld",
                       sqlite3_value_int64(value));
}

static int cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    struct args_cursor *cursor = (struct args_cursor *)base;
    const struct arg_field *field = arg_sets_field(cursor->sets, cursor->index);
    sqlite3_value *value =
        column >= COLUMN_INT ? arg_sets_value(cursor->sets, cursor->index) : NULL;
    int stored = value ? sqlite3_value_type(value) : SQLITE_NULL;
    if (column == COLUMN_ID)
        sqlite3_result_int64(context, (int64_t)((uint64_t)cursor->set << SETS_BITS) | field->slot);
    else if (column == COLUMN_SET)
        sqlite3_result_int64(context, cursor->set);
    else if (column == COLUMN_FLAT_KEY)
        sqlite3_result_text(context, field->flat_key, field->flat_key_size, SQLITE_TRANSIENT);
    else if (column == COLUMN_KEY)
        sqlite3_result_text(context, field->key, field->key_size, SQLITE_TRANSIENT);
    else if (column == COLUMN_INT && field->type != STORED_REAL && stored == SQLITE_INTEGER)
        sqlite3_result_value(context, value);
    else if (column == COLUMN_STRING && stored == SQLITE_TEXT)
        sqlite3_result_value(context, value);
    else if (column == COLUMN_REAL && field->type == STORED_REAL && stored != SQLITE_NULL)
        sqlite3_result_double(context, sqlite3_value_double(value));
    else if (column == COLUMN_TYPE)
        sqlite3_result_text(context, type_name(field->type, stored == SQLITE_TEXT), -1,
                            SQLITE_STATIC);
    else if (column == COLUMN_DISPLAY)
        display_result(context, field->type, value);
    return SQLITE_OK;
}

static int cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
    struct args_cursor *cursor = (struct args_cursor *)base;
    *ret = (int64_t)((uint64_t)cursor->set << SETS_BITS) | cursor->index;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .xCreate = table_create,
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

static int count_sets(sqlite3 *handle, double *ret)
{
    sqlite3_stmt *statement = NULL;
    int code =
        sqlite3_prepare_v2(handle, "SELECT max(id) FROM main._arg_set", -1, &statement, NULL);
    if (code == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
        *ret = sqlite3_column_double(statement, 0) + 1;
    int finalized = sqlite3_finalize(statement);
    return code == SQLITE_OK ? finalized : code;
}

int args_table_register(sqlite3 *handle)
{
    double *n_sets = sqlite3_malloc(sizeof(*n_sets));
    if (!n_sets)
        return SQLITE_NOMEM;
    *n_sets = 0;
    // Frees n_sets, also on failure.
    int code = sqlite3_create_module_v2(handle, "mmsql_args", &module, n_sets, sqlite3_free);
    if (code != SQLITE_OK)
        return code;
    code = sqlite3_table_column_metadata(handle, "main", "_arg_set", "value_63", NULL, NULL, NULL,
                                         NULL, NULL);
    if (code != SQLITE_OK)
        return code == SQLITE_ERROR ? SQLITE_OK : code; // SQLITE_ERROR: there is no such column
    code = count_sets(handle, n_sets);
    if (code != SQLITE_OK)
        return code;
    return sqlite3_exec(handle, "CREATE VIRTUAL TABLE temp.args USING mmsql_args", NULL, NULL,
                        NULL);
}
