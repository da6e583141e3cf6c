// SPDX-License-Identifier: Apache-2.0
//
// The statement's parameters have the numbers of the schema's columns, so importers of files and of
// packets name columns in the same way.
#include "converter/tables/rows.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/tables/text_mend.h"

int rows_open_bulk(struct rows *rows, struct sqlite3 *handle, struct bulk *bulk,
                   enum table_id table, struct err *err)
{
    if (!bulk_has(bulk, table))
        return rows_open(rows, handle, table, err);
    *rows = (struct rows){.def = &table_defs[table], .table = table, .bulk = bulk};
    rows->next_id = bulk_next_id(bulk, table);
    return rows->def->n_stored <= ROWS_CELLS_MAX
               ? 0
               : err_set(err, -EIO, "%s: too many columns", rows->def->name);
}

int rows_open(struct rows *rows, struct sqlite3 *handle, enum table_id table, struct err *err)
{
    const struct table_def *def = &table_defs[table];
    *rows = (struct rows){.def = def, .table = table};
    CLEANUP(strbuf_done) struct strbuf sql = {0}, values = {0};
    strbuf_addf(&sql, "INSERT INTO main.\"%s\"(", def->stored_name);
    for (size_t i = 0, n = 0; i < def->n_columns; i++) {
        if (def->columns[i].generated)
            continue;
        strbuf_addf(&sql, "%s\"%s\"", n ? "," : "", def->columns[i].name);
        strbuf_add_str(&values, n++ ? ",?" : "?");
    }
    strbuf_addf(&sql, ") VALUES(%s)", values.text ? values.text : "");
    if (sql.failed || values.failed)
        return err_errno(err, -ENOMEM, "%s", def->name);
    rows->code =
        sqlite3_prepare_v3(handle, sql.text, -1, SQLITE_PREPARE_PERSISTENT, &rows->insert, NULL);
    if (rows->code != SQLITE_OK)
        return err_set(err, -EIO, "%s: %s", def->name, sqlite3_errmsg(handle));
    rows->next_id = table_next_id(handle, table);
    return rows->next_id < 0 ? err_errno(err, (int)rows->next_id, "%s", def->name) : 0;
}

static void rows_failed(struct rows *rows, int code)
{
    if (rows->code == SQLITE_OK && code != SQLITE_OK)
        rows->code = code;
}

void rows_int(struct rows *rows, size_t column, int64_t value)
{
    if (rows->bulk) {
        cell_int(rows->cells, column, value);
        return;
    }
    rows_failed(rows, sqlite3_bind_int64(rows->insert, (int)column + 1, value));
}

void rows_real(struct rows *rows, size_t column, double value)
{
    if (rows->bulk) {
        cell_real(rows->cells, column, value);
        return;
    }
    rows_failed(rows, sqlite3_bind_double(rows->insert, (int)column + 1, value));
}

void rows_text(struct rows *rows, size_t column, const char *text, size_t size)
{
    if (rows->bulk) {
        cell_bytes(rows->cells, column, text, size);
        return;
    }
    CLEANUP(strbuf_done) struct strbuf mended = {0};
    text_mend(&mended, text, size);
    int code = SQLITE_NOMEM;
    if (mended.size && !mended.failed)
        code = sqlite3_bind_text64(rows->insert, (int)column + 1, mended.text, mended.size,
                                   SQLITE_TRANSIENT, SQLITE_UTF8);
    else if (!mended.failed)
        code = sqlite3_bind_text64(rows->insert, (int)column + 1, text ? text : "", size,
                                   SQLITE_STATIC, SQLITE_UTF8);
    rows_failed(rows, code);
}

int64_t rows_put(struct rows *rows)
{
    int64_t id = rows->next_id++;
    if (rows->bulk) {
        bulk_put(rows->bulk, rows->table, rows->cells);
        for (size_t i = 0; i < rows->def->n_stored; i++)
            rows->cells[i].type = CELL_NULL;
        return id;
    }
    if (rows->def->columns[0].key)
        rows_int(rows, 0, id);
    if (rows->code == SQLITE_OK && sqlite3_step(rows->insert) != SQLITE_DONE)
        rows->code = sqlite3_extended_errcode(sqlite3_db_handle(rows->insert));
    sqlite3_reset(rows->insert);
    sqlite3_clear_bindings(rows->insert);
    return id;
}

void rows_put_numbers(struct rows *rows, size_t column, const int64_t *numbers, size_t n)
{
    if (rows->bulk) {
        rows->next_id = bulk_put_numbers(rows->bulk, rows->table, numbers, n) + (int64_t)n;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        rows_int(rows, column, numbers[i]);
        rows_put(rows);
    }
}

int rows_error(const struct rows *rows, struct err *err)
{
    if (rows->bulk && bulk_error(rows->bulk) < 0)
        return err_errno(err, bulk_error(rows->bulk), "%s", rows->def->name);
    if (rows->code == SQLITE_OK)
        return 0;
    int r = rows->code == SQLITE_NOMEM ? -ENOMEM : rows->code == SQLITE_FULL ? -ENOSPC : -EIO;
    return err_set(err, r, "%s: %s", rows->def->name, sqlite3_errstr(rows->code));
}

void rows_close(struct rows *rows)
{
    sqlite3_finalize(rows->insert);
    rows->insert = NULL;
}
