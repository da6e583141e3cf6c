// SPDX-License-Identifier: Apache-2.0
//
// Reads any text as PerfettoSQL: statements, macros and modules on an empty database. An error has
// a text. Statements stop after a bounded number of steps, because SQL may run for ever.
#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "converter/functions/functions.h"
#include "converter/perfetto_sql/engine.h"
#include "converter/perfetto_sql/packages.h"

#define STEPS_MAX 200 // of 1,000 instructions

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int count_steps(void *userdata)
{
    return ++*(int *)userdata > STEPS_MAX;
}

static void run(struct sql_engine *engine, const char *sql)
{
    const struct sql_text *text = sql_engine_text(engine, "input", sql);
    size_t at = 0, before = 0;
    sqlite3_stmt *statement = NULL;
    int r;
    while (text && (r = sql_engine_next(engine, text, &at, &statement)) > 0) {
        if (at <= before || at > text->size)
            abort();
        before = at;
        while (statement && sqlite3_step(statement) == SQLITE_ROW)
            continue;
        sqlite3_finalize(statement);
        statement = NULL;
    }
    if (text && r < 0 && !*sql_engine_error(engine))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sql_packages packages = {0};
    struct sql_engine *engine = NULL;
    sqlite3 *handle = NULL;
    int steps = 0;
    char *sql = malloc(size + 1);
    if (!sql || size > 100000 || packages_add_library(&packages) < 0 ||
        sqlite3_open(":memory:", &handle) != SQLITE_OK || functions_register(handle) != SQLITE_OK ||
        table_functions_register(handle) != SQLITE_OK ||
        sql_engine_new(handle, &packages, &engine) < 0)
        goto done;
    memcpy(sql, data, size);
    sql[size] = '\0';
    sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, 10 << 20);
    sqlite3_progress_handler(handle, 1000, count_steps, &steps);
    run(engine, sql);
done:
    sql_engine_free(engine);
    sqlite3_close(handle);
    packages_done(&packages);
    free(sql);
    return 0;
}
