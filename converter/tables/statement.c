// SPDX-License-Identifier: Apache-2.0
#include "converter/tables/statement.h"

#include <errno.h>
#include <stdbool.h>

#include "common/cleanup.h"
#include "common/str.h"

static int failure_of(int code)
{
    return code == SQLITE_NOMEM       ? -ENOMEM
           : code == SQLITE_FULL      ? -ENOSPC
           : code == SQLITE_INTERRUPT ? -ECANCELED
                                      : -EIO;
}

int sql_run(struct sqlite3 *handle, const char *sql, const char *what, struct err *err)
{
    int code = sqlite3_exec(handle, sql, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        return 0;
    return err_set(err, failure_of(code), "%s: %s", what, sqlite3_errmsg(handle));
}

int64_t sql_number_or_failure(struct sqlite3 *handle, const char *sql, int64_t otherwise,
                              int *ret_failure)
{
    sqlite3_stmt *statement = NULL;
    int64_t number = otherwise;
    int code = sqlite3_prepare_v2(handle, sql, -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL)
        number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    bool asked = code == SQLITE_ROW || code == SQLITE_DONE || (code & 0xff) == SQLITE_ERROR;
    if (!asked && *ret_failure == 0)
        *ret_failure = failure_of(code & 0xff);
    return number;
}

int64_t sql_number(struct sqlite3 *handle, const char *sql, int64_t otherwise)
{
    int failure = 0;
    return sql_number_or_failure(handle, sql, otherwise, &failure);
}

int64_t table_next_id(struct sqlite3 *handle, enum table_id table)
{
    const struct table_def *def = &table_defs[table];
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    if (!def->columns[0].key)
        return 0;
    strbuf_addf(&sql, "SELECT max(\"%s\") + 1 FROM main.\"%s\"", def->columns[0].name,
                def->stored_name);
    int failure = sql.failed ? -ENOMEM : 0;
    int64_t next = sql.failed ? 0 : sql_number_or_failure(handle, sql.text, 0, &failure);
    return failure < 0 ? failure : next;
}
