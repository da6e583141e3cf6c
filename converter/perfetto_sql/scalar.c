// SPDX-License-Identifier: Apache-2.0
//
// A function keeps its prepared statements, one for each running call, because a function may call
// itself. The engine owns the statements, because SQLite does not close a connection that still has
// statements.
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/map.h"
#include "converter/perfetto_sql/engine_state.h"

#define CALLS_MAX 1000      // nested calls of a function
#define KEPT_MAX  (1 << 20) // results of a function

VEC_DEFINE(stmt_vec, sqlite3_stmt *);

// A kept result of a function with one integer argument.
struct kept {
    int64_t argument;
    sqlite3_value *value; // owned; NULL: free
};

struct argument {
    char *name; // owned: "$x"; NULL if the function delegates
    enum sql_type type;
    int parameter; // parameter of the statement; 0: the SQL does not use the argument
};

// A call whose result is wanted: see results_prepare().
struct wanted {
    int64_t argument;
    bool was_tried;
};
VEC_DEFINE(wanted_vec, struct wanted);

struct scalar {
    struct sql_engine *engine;  // borrowed
    char *name;                 // owned
    struct sql_rope sql;        // owned
    int n_arguments;            // -1: any number; `sql` then ends after the opening parenthesis
    struct argument *arguments; // owned
    struct stmt_vec statements; // owned; the first `depth` statements are in use
    size_t depth;
    bool has_texts; // an argument may be a text or blob, which the statement copies
    bool is_valid;  // the SQL was prepared once
    bool keeps;
    struct kept *kept; // owned; open addressing
    size_t n_kept, n_slots;
    struct wanted_vec wanted; // owned
    struct map64 seen;        // owned; all arguments that were in `wanted`
    bool is_preparing, is_trying;
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

// Keeps a result. A NULL is not kept.
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

// Returns the SQL with one ?n for each argument.
static char *variadic_sql(const struct scalar *scalar, int argc)
{
    sqlite3_str *sql = sqlite3_str_new(NULL);
    sqlite3_str_appendall(sql, scalar->sql.sql.text);
    for (int i = 0; i < argc; i++)
        sqlite3_str_appendf(sql, "%s?%d", i ? ", " : "", i + 1);
    sqlite3_str_appendall(sql, ")");
    return sqlite3_str_finish(sql);
}

static int statement_keep(struct scalar *scalar, sqlite3_stmt *statement)
{
    if (stmt_vec_push(&scalar->statements, statement) < 0) {
        sqlite3_finalize(statement);
        return SQLITE_NOMEM;
    }
    for (int i = 0; i < scalar->n_arguments; i++) {
        const char *name = scalar->arguments[i].name;
        scalar->arguments[i].parameter =
            name ? sqlite3_bind_parameter_index(statement, name) : i + 1;
    }
    return SQLITE_OK;
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
    const char *sql =
        scalar->statements.n ? sqlite3_sql(scalar->statements.items[0]) : scalar->sql.sql.text;
    int code = sqlite3_prepare_v3(handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL);
    if (code == SQLITE_OK && statement)
        code = statement_keep(scalar, statement);
    *ret = statement;
    return code;
}

static void statement_release(struct scalar *scalar, sqlite3_stmt *statement)
{
    scalar->depth--;
    if (scalar->n_arguments < 0) {
        sqlite3_finalize(statement);
        return;
    }
    sqlite3_reset(statement);
    if (scalar->has_texts)
        sqlite3_clear_bindings(statement);
}

// Makes SQLite's last error the error of the call. `offset`: the place of the error in the
// function's SQL.
static void error_result(sqlite3_context *context, struct scalar *scalar, const char *why,
                         size_t offset)
{
    if (offset > scalar->sql.sql.size)
        offset = 0;
    engine_call_failed(scalar->engine, scalar->name, rope_origin(&scalar->sql, offset));
    sqlite3_result_error(context, why ? why : "out of memory", -1);
}

static void scalar_step(sqlite3_context *context, struct scalar *scalar, sqlite3_stmt *statement,
                        int argc, sqlite3_value **argv)
{
    for (int i = 0; i < argc; i++) {
        int parameter = scalar->n_arguments < 0 ? i + 1 : scalar->arguments[i].parameter;
        if (parameter)
            sqlite3_bind_value(statement, parameter, argv[i]);
    }
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        sqlite3_value *value = sqlite3_column_value(statement, 0);
        sqlite3_result_value(context, value);
        if (scalar->keeps && sqlite3_value_type(argv[0]) == SQLITE_INTEGER)
            result_keep(scalar, sqlite3_value_int64(argv[0]), value);
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW) {
            char *why =
                sqlite3_mprintf("function %s: its SQL returns more than one row", scalar->name);
            error_result(context, scalar, why, 0);
            sqlite3_free(why);
            return;
        }
    }
    if (code != SQLITE_DONE)
        error_result(context, scalar, sqlite3_errmsg(sqlite3_context_db_handle(context)), 0);
}

// Returns whether a value fits an argument of the type. NULL fits every type.
static bool value_fits(enum sql_type type, int value_type)
{
    static const uint8_t fits[] = {
        [SQL_TYPE_LONG] = 1 << SQLITE_INTEGER,
        [SQL_TYPE_DOUBLE] = 1 << SQLITE_FLOAT,
        [SQL_TYPE_STRING] = 1 << SQLITE_TEXT,
        [SQL_TYPE_BYTES] = 1 << SQLITE_BLOB,
        [SQL_TYPE_ANY] = UINT8_MAX,
    };
    return (fits[type] | 1 << SQLITE_NULL) >> value_type & 1;
}

static void argument_refuse(sqlite3_context *context, const struct scalar *scalar, int i,
                            sqlite3_value *value)
{
    static const enum sql_type types[] = {
        [SQLITE_INTEGER] = SQL_TYPE_LONG,
        [SQLITE_FLOAT] = SQL_TYPE_DOUBLE,
        [SQLITE_TEXT] = SQL_TYPE_STRING,
        [SQLITE_BLOB] = SQL_TYPE_BYTES,
    };
    const struct argument *argument = &scalar->arguments[i];
    int type = sqlite3_value_type(value);
    const char *text = type == SQLITE_BLOB ? NULL : (const char *)sqlite3_value_text(value);
    char *why = sqlite3_mprintf(
        "function %s: the argument %s is a %s, but a value is a %s%s%.40s%s (CAST converts values)",
        scalar->name, argument->name + 1, sql_type_name(argument->type), sql_type_name(types[type]),
        text ? ": " : "", text ? text : "", text && strlen(text) > 40 ? "..." : "");
    sqlite3_result_error(context, why ? why : "out of memory", -1);
    sqlite3_free(why);
}

static bool arguments_check(sqlite3_context *context, const struct scalar *scalar,
                            sqlite3_value **argv)
{
    for (int i = 0; i < scalar->n_arguments; i++)
        if (!value_fits(scalar->arguments[i].type, sqlite3_value_type(argv[i]))) {
            argument_refuse(context, scalar, i, argv[i]);
            return false;
        }
    return true;
}

static sqlite3_value *kept_value(const struct scalar *scalar, int64_t argument)
{
    return scalar->n_slots ? kept_slot(scalar->kept, scalar->n_slots, argument)->value : NULL;
}

// Adds a call whose result is wanted, once.
static int want(struct scalar *scalar, int64_t argument)
{
    bool is_new = false;
    if (scalar->wanted.n == KEPT_MAX)
        return SQLITE_OK;
    if (!map64_get_or_add(&scalar->seen, (uint64_t)argument, 1, &is_new))
        return SQLITE_NOMEM;
    struct wanted wanted = {argument, false};
    return !is_new || wanted_vec_push(&scalar->wanted, wanted) == 0 ? SQLITE_OK : SQLITE_NOMEM;
}

// Runs the function's SQL with a number. A result is kept, unless the run is a trial.
static int run(sqlite3 *handle, struct scalar *scalar, int64_t argument, bool is_trial)
{
    sqlite3_stmt *statement = NULL;
    int code = statement_get(handle, scalar, 1, &statement);
    if (code != SQLITE_OK)
        return code;
    bool was_trying = scalar->is_trying;
    scalar->is_trying = is_trial;
    scalar->depth++;
    if (scalar->arguments[0].parameter)
        sqlite3_bind_int64(statement, scalar->arguments[0].parameter, argument);
    code = sqlite3_step(statement);
    if (code == SQLITE_ROW && !is_trial)
        result_keep(scalar, argument, sqlite3_column_value(statement, 0));
    scalar->is_trying = was_trying;
    statement_release(scalar, statement);
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

// Finds the results that a call needs. A function whose results are kept may call itself very
// often: f(n) = f(n - 1) + 1. Nested calls would take much room on the stack. Therefore each call
// first runs as a trial, in which the calls that it makes return NULL and are only recorded. Their
// results are found next, and then the call runs once more.
static int results_prepare(sqlite3 *handle, struct scalar *scalar, int64_t argument)
{
    scalar->is_preparing = true;
    int code = want(scalar, argument);
    while (code == SQLITE_OK && scalar->wanted.n) {
        struct wanted *last = &scalar->wanted.items[scalar->wanted.n - 1];
        int64_t next = last->argument;
        if (!last->was_tried) {
            last->was_tried = true;
            // In a trial, the SQL may fail because results are NULL.
            code = run(handle, scalar, next, true) == SQLITE_NOMEM ? SQLITE_NOMEM : SQLITE_OK;
            continue;
        }
        scalar->wanted.n--;
        if (!kept_value(scalar, next))
            code = run(handle, scalar, next, false);
    }
    wanted_vec_clear(&scalar->wanted);
    map64_clear(&scalar->seen);
    scalar->is_preparing = false;
    return code;
}

// Handles a call of a function whose results are kept. Returns whether the call is done.
static bool kept_call(sqlite3_context *context, struct scalar *scalar, int64_t argument)
{
    sqlite3_value *value = kept_value(scalar, argument);
    if (!value && scalar->is_trying) {
        if (want(scalar, argument) != SQLITE_OK)
            sqlite3_result_error_nomem(context);
        return true;
    }
    sqlite3 *handle = sqlite3_context_db_handle(context);
    if (!value && scalar->depth > 0 && !scalar->is_preparing) {
        if (results_prepare(handle, scalar, argument) != SQLITE_OK) {
            error_result(context, scalar, sqlite3_errmsg(handle), 0);
            return true;
        }
        value = kept_value(scalar, argument);
    }
    if (value)
        sqlite3_result_value(context, value);
    return value;
}

static void scalar_call(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    sqlite3 *handle = sqlite3_context_db_handle(context);
    struct scalar *scalar = sqlite3_user_data(context);
    sqlite3_stmt *statement = NULL;
    if (!arguments_check(context, scalar, argv))
        return;
    if (scalar->keeps && sqlite3_value_type(argv[0]) == SQLITE_INTEGER &&
        kept_call(context, scalar, sqlite3_value_int64(argv[0])))
        return;
    if (scalar->depth == CALLS_MAX) {
        sqlite3_result_error(context, "the function calls itself too often", -1);
        return;
    }
    int code = statement_get(handle, scalar, argc, &statement);
    if (code != SQLITE_OK || !statement) {
        size_t offset = 0;
#if SQLITE_VERSION_NUMBER >= 3038000
        offset = (size_t)sqlite3_error_offset(handle);
#endif
        if (code == SQLITE_NOMEM)
            sqlite3_result_error_nomem(context);
        else
            error_result(context, scalar, sqlite3_errmsg(handle), offset);
        return;
    }
    scalar->depth++;
    scalar_step(context, scalar, statement, argc, argv);
    statement_release(scalar, statement);
}

// Releases the function's SQL, with its statements, arguments and kept results.
static void sql_remove(struct scalar *scalar)
{
    vec_foreach(&scalar->statements, statement)
        sqlite3_finalize(*statement);
    stmt_vec_clear(&scalar->statements);
    for (size_t i = 0; i < scalar->n_slots; i++)
        sqlite3_value_free(scalar->kept[i].value);
    free(scalar->kept);
    scalar->kept = NULL;
    scalar->n_kept = scalar->n_slots = 0;
    scalar->keeps = scalar->is_valid = false;
    for (int i = 0; i < scalar->n_arguments && scalar->arguments; i++)
        free(scalar->arguments[i].name);
    free(scalar->arguments);
    scalar->arguments = NULL;
    rope_done(&scalar->sql);
}

static void scalar_free(struct scalar *scalar)
{
    sql_remove(scalar);
    stmt_vec_done(&scalar->statements);
    wanted_vec_done(&scalar->wanted);
    map64_done(&scalar->seen);
    free(scalar->name);
    free(scalar);
}

// Returns the function with `n` arguments, or NULL if there is no such function. SQLite refuses to
// replace a function while any statement runs, so the engine gives an existing function the new
// SQL.
static struct scalar *scalar_find(const struct sql_engine *engine, const char *name, int n)
{
    for (size_t i = engine->scalars.n; i-- > 0;)
        if (engine->scalars.items[i]->n_arguments == n &&
            strcasecmp(engine->scalars.items[i]->name, name) == 0)
            return engine->scalars.items[i];
    return NULL;
}

static struct argument *arguments_make(const struct sql_definition *definition, bool delegates)
{
    size_t n = definition->arguments.n;
    struct argument *arguments = calloc(n + 1, sizeof(*arguments));
    bool is_whole = arguments;
    for (size_t i = 0; i < n && is_whole; i++) {
        const struct sql_field *field = &definition->arguments.items[i];
        arguments[i].type = delegates ? SQL_TYPE_ANY : sql_type_read(field->type);
        if (delegates)
            continue;
        char *bare = engine_name(field->name);
        is_whole = bare && asprintf(&arguments[i].name, "$%s", bare) >= 0;
        if (!is_whole)
            arguments[i].name = NULL;
        free(bare);
    }
    for (size_t i = 0; i < n && arguments && !is_whole; i++)
        free(arguments[i].name);
    if (!is_whole) {
        free(arguments);
        return NULL;
    }
    return arguments;
}

static struct scalar *scalar_new(struct sql_engine *engine, const char *name, int n)
{
    struct scalar *scalar = calloc(1, sizeof(*scalar));
    if (!scalar)
        return NULL;
    *scalar = (struct scalar){.engine = engine, .name = strdup(name), .n_arguments = n};
    if (scalar->name && scalar_vec_push(&engine->scalars, scalar) == 0)
        return scalar;
    scalar_free(scalar);
    return NULL;
}

int scalar_add(struct sql_engine *engine, const struct sql_definition *definition,
               struct sql_rope *sql, struct scalar **ret)
{
    bool delegates = !sql_part_is_empty(definition->delegate);
    int n = definition_is_variadic(definition) ? -1 : (int)definition->arguments.n;
    CLEANUP(freep) char *name = engine_name(definition->name);
    struct scalar *scalar = name ? scalar_find(engine, name, n) : NULL;
    if (scalar && scalar->is_valid && !definition->replaces)
        return SQLITE_CONSTRAINT;
    if (scalar && scalar->depth)
        return SQLITE_BUSY; // its statements are in use
    struct argument *arguments = name ? arguments_make(definition, delegates) : NULL;
    bool is_new = arguments && !scalar;
    if (is_new)
        scalar = scalar_new(engine, name, n);
    if (!arguments || !scalar) {
        for (int i = 0; arguments && i < n; i++)
            free(arguments[i].name);
        free(arguments);
        return SQLITE_NOMEM;
    }
    sql_remove(scalar);
    scalar->arguments = arguments;
    scalar->has_texts = n < 0;
    for (int i = 0; i < n; i++)
        scalar->has_texts |=
            arguments[i].type != SQL_TYPE_LONG && arguments[i].type != SQL_TYPE_DOUBLE;
    scalar->sql = *sql;
    *sql = (struct sql_rope){0};
    *ret = scalar;
    return is_new ? sqlite3_create_function_v2(engine->handle, name, n, SQLITE_UTF8, scalar,
                                               scalar_call, NULL, NULL, NULL)
                  : SQLITE_OK;
}

int scalar_prepare(struct sql_engine *engine, struct scalar *scalar)
{
    sqlite3_stmt *statement = NULL;
    if (scalar->n_arguments < 0) {
        scalar->is_valid = true;
        return 0;
    }
    struct sql_piece here = engine->here;
    struct sql_piece body = rope_origin(&scalar->sql, 0);
    if (body.text)
        engine->here = body;
    int r = engine_prepare(engine, &scalar->sql, &statement);
    int n = r == 0 ? sqlite3_column_count(statement) : 1;
    if (n != 1)
        r = engine_fail(engine, -EINVAL, NULL, NULL,
                        "function %s: its SQL returns %d columns instead of one", scalar->name, n);
    engine->here = here;
    if (r < 0) {
        sqlite3_finalize(statement);
        return r;
    }
    scalar->is_valid = statement_keep(scalar, statement) == SQLITE_OK;
    return scalar->is_valid ? 0 : engine_fail(engine, -ENOMEM, NULL, NULL, "out of memory");
}

bool scalar_memoize(struct sql_engine *engine, const char *name)
{
    struct scalar *scalar = scalar_find(engine, name, 1);
    if (!scalar || scalar->arguments[0].type != SQL_TYPE_LONG)
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
