// SPDX-License-Identifier: Apache-2.0
//
// A function keeps its prepared statements, one for each call that is under way: a function may
// call itself. The engine owns them, because SQLite closes no connection that has statements left.
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/map.h"
#include "converter/perfetto_sql/engine_state.h"

#define CALLS_MAX 1000      // of a function within itself
#define KEPT_MAX  (1 << 20) // results of a function

VEC_DEFINE(stmt_vec, sqlite3_stmt *);

// A result that is kept: of a function with one integer argument.
struct kept {
    int64_t argument;
    sqlite3_value *value; // owned; NULL: free
};

struct scalar {
    char *name, *sql;           // owned
    int n_arguments;            // -1: any number; `sql` then ends after the opening parenthesis
    struct stmt_vec statements; // owned; those before `depth` are in use
    size_t depth;
    bool keeps;
    struct kept *kept; // owned; open addressing
    size_t n_kept, n_slots;
};

static struct kept *kept_slot(struct kept *kept, size_t n_slots, int64_t argument)
{
    size_t i = (size_t)table_hash_u64((uint64_t)argument) & (n_slots - 1);
    while (kept[i].value && kept[i].argument != argument)
        i = (i + 1) & (n_slots - 1);
    return &kept[i];
}

static bool kept_grow(struct scalar *scalar)
{
    size_t n = scalar->n_slots ? scalar->n_slots * 2 : 64;
    struct kept *grown = calloc(n, sizeof(*grown));
    if (!grown)
        return false;
    for (size_t i = 0; i < scalar->n_slots; i++)
        if (scalar->kept[i].value)
            *kept_slot(grown, n, scalar->kept[i].argument) = scalar->kept[i];
    free(scalar->kept);
    scalar->kept = grown;
    scalar->n_slots = n;
    return true;
}

// A NULL is not kept.
static void result_keep(struct scalar *scalar, int64_t argument, sqlite3_value *value)
{
    if (sqlite3_value_type(value) == SQLITE_NULL || scalar->n_kept == KEPT_MAX ||
        (scalar->n_kept * 2 >= scalar->n_slots && !kept_grow(scalar)))
        return;
    struct kept *slot = kept_slot(scalar->kept, scalar->n_slots, argument);
    if (slot->value)
        return;
    *slot = (struct kept){argument, sqlite3_value_dup(value)};
    scalar->n_kept += slot->value ? 1 : 0;
}

// The SQL with as many ?n as there are arguments.
static char *variadic_sql(const struct scalar *scalar, int argc)
{
    sqlite3_str *sql = sqlite3_str_new(NULL);
    sqlite3_str_appendall(sql, scalar->sql);
    for (int i = 0; i < argc; i++)
        sqlite3_str_appendf(sql, "%s?%d", i ? ", " : "", i + 1);
    sqlite3_str_appendall(sql, ")");
    return sqlite3_str_finish(sql);
}

static int statement_get(sqlite3 *handle, struct scalar *scalar, int argc, sqlite3_stmt **ret)
{
    if (scalar->n_arguments < 0) {
        char *sql = variadic_sql(scalar, argc);
        int code = sql ? sqlite3_prepare_v2(handle, sql, -1, ret, NULL) : SQLITE_NOMEM;
        sqlite3_free(sql);
        return code;
    }
    if (scalar->depth < scalar->statements.n) {
        *ret = scalar->statements.items[scalar->depth];
        return SQLITE_OK;
    }
    sqlite3_stmt *statement = NULL;
    if (stmt_vec_reserve(&scalar->statements, scalar->depth + 1) < 0)
        return SQLITE_NOMEM;
    int code =
        sqlite3_prepare_v3(handle, scalar->sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL);
    if (code == SQLITE_OK) {
        stmt_vec_push(&scalar->statements, statement);
        *ret = statement;
    }
    return code;
}

static void scalar_step(sqlite3_context *context, struct scalar *scalar, sqlite3_stmt *statement,
                        int argc, sqlite3_value **argv)
{
    for (int i = 0; i < argc; i++)
        sqlite3_bind_value(statement, i + 1, argv[i]);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        sqlite3_value *value = sqlite3_column_value(statement, 0);
        sqlite3_result_value(context, value);
        if (scalar->keeps)
            result_keep(scalar, sqlite3_value_int64(argv[0]), value);
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW) {
            char *why =
                sqlite3_mprintf("function %s: its SQL returns more than one row", scalar->name);
            sqlite3_result_error(context, why ? why : "out of memory", -1);
            sqlite3_free(why);
            return;
        }
    }
    if (code != SQLITE_DONE)
        sqlite3_result_error(context, sqlite3_errmsg(sqlite3_context_db_handle(context)), -1);
}

static void scalar_call(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    sqlite3 *handle = sqlite3_context_db_handle(context);
    struct scalar *scalar = sqlite3_user_data(context);
    sqlite3_stmt *statement = NULL;
    if (scalar->keeps && scalar->n_slots) {
        const struct kept *slot =
            kept_slot(scalar->kept, scalar->n_slots, sqlite3_value_int64(argv[0]));
        if (slot->value) {
            sqlite3_result_value(context, slot->value);
            return;
        }
    }
    if (scalar->depth == CALLS_MAX) {
        sqlite3_result_error(context, "the function calls itself too often", -1);
        return;
    }
    int code = statement_get(handle, scalar, argc, &statement);
    if (code != SQLITE_OK) {
        if (code == SQLITE_NOMEM)
            sqlite3_result_error_nomem(context);
        else
            sqlite3_result_error(context, sqlite3_errmsg(handle), -1);
        return;
    }
    scalar->depth++;
    scalar_step(context, scalar, statement, argc, argv);
    scalar->depth--;
    if (scalar->n_arguments < 0) {
        sqlite3_finalize(statement);
    } else {
        sqlite3_reset(statement);
        sqlite3_clear_bindings(statement);
    }
}

static void scalar_free(struct scalar *scalar)
{
    vec_foreach(&scalar->statements, statement)
        sqlite3_finalize(*statement);
    stmt_vec_done(&scalar->statements);
    for (size_t i = 0; i < scalar->n_slots; i++)
        sqlite3_value_free(scalar->kept[i].value);
    free(scalar->kept);
    free(scalar->name);
    free(scalar->sql);
    free(scalar);
}

// The latest function of the name.
static struct scalar *scalar_find(const struct sql_engine *engine, const char *name)
{
    for (size_t i = engine->scalars.n; i-- > 0;)
        if (strcasecmp(engine->scalars.items[i]->name, name) == 0)
            return engine->scalars.items[i];
    return NULL;
}

// SQLite refuses to replace a function while any statement runs, so a function that is there gets
// the new SQL itself. Returns NULL if there is none.
static struct scalar *scalar_find_same(const struct sql_engine *engine, const char *name, int n)
{
    for (size_t i = engine->scalars.n; i-- > 0;)
        if (engine->scalars.items[i]->n_arguments == n &&
            strcasecmp(engine->scalars.items[i]->name, name) == 0)
            return engine->scalars.items[i];
    return NULL;
}

// A function that runs keeps its SQL: its statements are in use.
static int scalar_replace(struct scalar *scalar, const char *sql)
{
    char *copy = scalar->depth ? NULL : strdup(sql);
    if (!copy)
        return scalar->depth ? SQLITE_BUSY : SQLITE_NOMEM;
    vec_foreach(&scalar->statements, statement)
        sqlite3_finalize(*statement);
    stmt_vec_clear(&scalar->statements);
    for (size_t i = 0; i < scalar->n_slots; i++)
        sqlite3_value_free(scalar->kept[i].value);
    free(scalar->kept);
    scalar->kept = NULL;
    scalar->n_kept = scalar->n_slots = 0;
    scalar->keeps = false;
    free(scalar->sql);
    scalar->sql = copy;
    return SQLITE_OK;
}

int scalar_add(struct sql_engine *engine, const char *name, int n, const char *sql)
{
    struct scalar *same = scalar_find_same(engine, name, n);
    if (same)
        return scalar_replace(same, sql);
    struct scalar *scalar = calloc(1, sizeof(*scalar));
    if (!scalar)
        return SQLITE_NOMEM;
    *scalar = (struct scalar){.name = strdup(name), .sql = strdup(sql), .n_arguments = n};
    if (!scalar->name || !scalar->sql || scalar_vec_push(&engine->scalars, scalar) < 0) {
        scalar_free(scalar);
        return SQLITE_NOMEM;
    }
    return sqlite3_create_function_v2(engine->handle, name, n, SQLITE_UTF8, scalar, scalar_call,
                                      NULL, NULL, NULL);
}

bool scalar_memoize(struct sql_engine *engine, const char *name)
{
    struct scalar *scalar = scalar_find(engine, name);
    if (!scalar || scalar->n_arguments != 1)
        return false;
    scalar->keeps = true;
    return true;
}

void scalars_free(struct sql_engine *engine)
{
    vec_foreach(&engine->scalars, scalar)
        scalar_free(*scalar);
    scalar_vec_done(&engine->scalars);
}
