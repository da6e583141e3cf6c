// SPDX-License-Identifier: Apache-2.0
//
// Views of modules call functions that only mmsql has. Therefore the database stores the rows of
// the views, not their SQL.
#include "converter/perfetto_sql/stored_modules.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/vec.h"
#include "converter/functions/functions.h"
#include "converter/perfetto_sql/engine.h"
#include "converter/perfetto_sql/packages.h"
#include "converter/tables/statement.h"

#define NAMES_TABLE "stored_module_table"

DEFINE_CLEANUP(engine_freep, struct sql_engine, sql_engine_free);
VEC_DEFINE(name_vec, char *);

static void names_done(struct name_vec *names)
{
    vec_foreach(names, name)
        free(*name);
    name_vec_done(names);
}

int modules_check(const struct sql_packages *packages, const char *const *patterns, size_t n,
                  struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        bool found = false;
        vec_foreach(&packages->modules, module)
            found |= module_matches(module, patterns[i], strlen(patterns[i]));
        if (!found) {
            err_set(err, -ENOENT, "--include %s: there is no such module", patterns[i]);
            return err_hint(err, -ENOENT,
                            "'mmsql query DB \"SELECT module FROM "
                            "__intrinsic_stdlib_modules\"' lists all");
        }
    }
    return 0;
}

static int failed(sqlite3 *handle, const char *name, struct err *err)
{
    int r = sqlite3_errcode(handle) == SQLITE_NOMEM ? -ENOMEM : -EIO;
    return err_set(err, r, "--include: %s: %s", name, sqlite3_errmsg(handle));
}

// Runs SQL in which `name` replaces %w.
static int run(sqlite3 *handle, const char *format, const char *name, struct err *err)
{
    char *sql = sqlite3_mprintf(format, name, name);
    int code = sql ? sqlite3_exec(handle, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return code == SQLITE_OK ? 0 : failed(handle, name, err);
}

// Appends the first column of the rows.
static int names_read(sqlite3 *handle, const char *sql, struct name_vec *ret, struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int r = 0, code = sqlite3_prepare_v2(handle, sql, -1, &statement, NULL);
    while (code == SQLITE_OK && r == 0 && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        char *name = text ? strdup(text) : NULL;
        r = name ? name_vec_push(ret, name) : -ENOMEM;
        if (r < 0)
            free(name);
        code = SQLITE_OK;
    }
    if (r == 0 && code != SQLITE_DONE)
        r = failed(handle, "names of tables", err);
    else if (r < 0)
        err_errno(err, r, "--include");
    sqlite3_finalize(statement);
    return r;
}

// Removes the tables of an earlier call.
static int former_drop(sqlite3 *handle, struct err *err)
{
    CLEANUP(names_done) struct name_vec names = {0};
    int r = run(handle, "CREATE TABLE IF NOT EXISTS main.%w(name TEXT PRIMARY KEY) WITHOUT ROWID",
                NAMES_TABLE, err);
    if (r == 0)
        r = names_read(handle, "SELECT name FROM main." NAMES_TABLE, &names, err);
    vec_foreach(&names, name)
        if (r == 0)
            r = run(handle, "DROP TABLE IF EXISTS main.\"%w\"", *name, err);
    return r == 0 ? run(handle, "DELETE FROM main.%w", NAMES_TABLE, err) : r;
}

// Public tables and views
#define MADE                                                                                       \
    "SELECT name FROM sqlite_temp_master WHERE type IN ('table', 'view') "                         \
    "AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT GLOB '_*' AND name NOT LIKE 'sqlite\\_%' "    \
    "ESCAPE '\\'"

static int made_store(sqlite3 *handle, struct err *err)
{
    static const char made[] =
        MADE " AND name NOT IN (SELECT name FROM main.sqlite_master) ORDER BY name";
    CLEANUP(names_done) struct name_vec names = {0};
    int r = names_read(handle, made, &names, err);
    vec_foreach(&names, name) {
        if (r == 0)
            r = run(handle, "CREATE TABLE main.\"%w\" AS SELECT * FROM temp.\"%w\"", *name, err);
        if (r == 0)
            r = run(handle, "INSERT INTO main." NAMES_TABLE " VALUES ('%q')", *name, err);
    }
    return r;
}

static bool pattern_matches(const char *pattern, const struct sql_package_module *module)
{
    return module_matches(module, pattern, strlen(pattern));
}

// Returns whether an earlier pattern matches a module of the pattern with this index.
static bool was_included(const struct sql_packages *packages, const char *const *patterns,
                         size_t index)
{
    vec_foreach(&packages->modules, module)
        for (size_t i = 0; i < index; i++)
            if (pattern_matches(patterns[index], module) && pattern_matches(patterns[i], module))
                return true;
    return false;
}

// Includes the modules of a pattern. Sets *ret_makes to whether the modules made tables or views.
static int pattern_include(sqlite3 *handle, struct sql_engine *engine, const char *pattern,
                           bool *ret_makes, struct err *err)
{
    static const char count[] = "SELECT count(*) FROM (" MADE ")";
    int failure = 0;
    int64_t before = sql_number_or_failure(handle, count, 0, &failure);
    int r = sql_engine_include(engine, pattern);
    if (r < 0)
        return err_set(err, r, "--include %s: %s", pattern, sql_engine_error(engine));
    *ret_makes = sql_number_or_failure(handle, count, 0, &failure) > before;
    return failure < 0 ? failed(handle, pattern, err) : 0;
}

int modules_store(struct sqlite3 *handle, struct sql_packages *packages,
                  const char *const *patterns, size_t n, struct strbuf *ret_empty, struct err *err)
{
    CLEANUP(engine_freep) struct sql_engine *engine = NULL;
    if (functions_register(handle) != SQLITE_OK || table_functions_register(handle) != SQLITE_OK ||
        sql_engine_new(handle, packages, &engine) < 0)
        return err_errno(err, -ENOMEM, "--include");
    int r = run(handle, "BEGIN", "", err);
    if (r == 0)
        r = former_drop(handle, err);
    for (size_t i = 0; i < n && r == 0; i++) {
        bool makes = false;
        r = pattern_include(handle, engine, patterns[i], &makes, err);
        if (r == 0 && !makes && !was_included(packages, patterns, i))
            strbuf_addf(ret_empty, "%s%s", ret_empty->size ? ", " : "", patterns[i]);
    }
    if (r == 0)
        r = made_store(handle, err);
    return r == 0 ? run(handle, "COMMIT", "", err) : r;
}
