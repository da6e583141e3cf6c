// SPDX-License-Identifier: Apache-2.0
//
// The engine of PerfettoSQL on an empty database, and its answers.
#pragma once

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "converter/perfetto_sql/engine.h"
#include "converter/perfetto_sql/packages.h"
#include "tests/unit/unit.h"

struct fixture {
    sqlite3 *handle;
    struct sql_packages packages;
    struct sql_engine *engine;
    struct strbuf answer;
};

static inline int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    assert_int_equal(sqlite3_open(":memory:", &f->handle), SQLITE_OK);
    assert_int_equal(sql_engine_new(f->handle, &f->packages, &f->engine), 0);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    sql_engine_free(f->engine);
    packages_done(&f->packages);
    strbuf_done(&f->answer);
    assert_int_equal(sqlite3_close(f->handle), SQLITE_OK); // no statement is left
    free(f);
    return 0;
}

// Appends the rows to f->answer: '|' between values, a blank after each row. Returns false if a
// step failed.
static inline bool rows_add(struct fixture *f, sqlite3_stmt *statement)
{
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW)
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            const char *text = (const char *)sqlite3_column_text(statement, i);
            bool is_last = i + 1 == sqlite3_column_count(statement);
            strbuf_addf(&f->answer, "%s%s", text ? text : "NULL", is_last ? " " : "|");
        }
    if (code != SQLITE_DONE)
        sql_engine_step_failed(f->engine);
    return code == SQLITE_DONE;
}

// Returns the rows of all statements, or the error. The text is valid until the next call.
static inline const char *ask(struct fixture *f, const char *sql)
{
    strbuf_clear(&f->answer);
    strbuf_add_str(&f->answer, "");
    const struct sql_text *text = sql_engine_text(f->engine, "", sql);
    size_t at = 0;
    int r = text ? 1 : -ENOMEM;
    while (r > 0) {
        sqlite3_stmt *statement = NULL;
        r = sql_engine_next(f->engine, text, &at, &statement);
        if (statement && !rows_add(f, statement))
            r = -EINVAL;
        sqlite3_finalize(statement);
    }
    if (r < 0) {
        strbuf_clear(&f->answer);
        strbuf_add_str(&f->answer, text ? sql_engine_error(f->engine) : "out of memory");
    }
    return f->answer.text ? f->answer.text : "";
}

#define is(f, sql, wanted) assert_string_equal(ask(f, sql), wanted)

// Asserts that `sql` fails, and that `wanted` is the first line of the error. The other lines have
// the place.
static inline void fails(struct fixture *f, const char *sql, const char *wanted)
{
    char line[256] = "";
    const char *answer = ask(f, sql);
    strncat(line, answer, strcspn(answer, "\n"));
    assert_string_equal(line, wanted);
}

static inline void module_add(struct fixture *f, const char *name, const char *sql)
{
    struct sql_package_module module = {.name = strdup(name), .sql = strdup(sql)};
    assert_int_equal(sql_package_module_vec_push(&f->packages.modules, module), 0);
}
