// SPDX-License-Identifier: Apache-2.0
//
// INSERT ... SELECT from a virtual table is SQLite's fastest road for rows: one statement per
// batch, and values are taken over without binding. What must stay true: the rows of a batch stand
// still while its statement runs, and texts live until then, because SQLite copies them when it
// writes the record.
#include "converter/tables/batch.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"

struct batch_vtab {
    sqlite3_vtab base;
    const struct batch *batch; // borrowed
};

struct batch_cursor {
    sqlite3_vtab_cursor base;
    size_t row;
};

struct batch_list {
    struct batch *batches;
    size_t n;
};

static int batch_connect(sqlite3 *handle, void *userdata, int argc, const char *const *argv,
                         sqlite3_vtab **ret, char **ret_error)
{
    (void)ret_error;
    const struct batch_list *list = userdata;
    const struct batch *batch = NULL;
    for (size_t i = 0; argc > 3 && i < list->n; i++)
        if (str_eq(list->batches[i].def->name, argv[3]))
            batch = &list->batches[i];
    if (!batch)
        return SQLITE_ERROR;
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    strbuf_add_str(&sql, "CREATE TABLE b(");
    for (size_t i = 0; i < batch->def->n_stored; i++)
        strbuf_addf(&sql, "%sc%zu", i ? "," : "", i);
    strbuf_add_str(&sql, ")");
    struct batch_vtab *vtab = sqlite3_malloc(sizeof(*vtab));
    if (!vtab || sql.failed) {
        sqlite3_free(vtab);
        return SQLITE_NOMEM;
    }
    *vtab = (struct batch_vtab){.batch = batch};
    *ret = &vtab->base;
    return sqlite3_declare_vtab(handle, sql.text);
}

static int batch_disconnect(sqlite3_vtab *vtab)
{
    sqlite3_free(vtab);
    return SQLITE_OK;
}

static int batch_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    (void)vtab;
    info->estimatedCost = BATCH_ROWS;
    info->estimatedRows = BATCH_ROWS;
    return SQLITE_OK;
}

static int batch_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
    (void)vtab;
    struct batch_cursor *cursor = sqlite3_malloc(sizeof(*cursor));
    if (!cursor)
        return SQLITE_NOMEM;
    *cursor = (struct batch_cursor){0};
    *ret = &cursor->base;
    return SQLITE_OK;
}

static int batch_close(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int batch_filter(sqlite3_vtab_cursor *base, int index_number, const char *index_text,
                        int argc, sqlite3_value **argv)
{
    (void)index_number;
    (void)index_text;
    (void)argc;
    (void)argv;
    ((struct batch_cursor *)base)->row = 0;
    return SQLITE_OK;
}

static int batch_next(sqlite3_vtab_cursor *base)
{
    ((struct batch_cursor *)base)->row++;
    return SQLITE_OK;
}

static int batch_eof(sqlite3_vtab_cursor *base)
{
    const struct batch *batch = ((struct batch_vtab *)base->pVtab)->batch;
    return ((struct batch_cursor *)base)->row >= batch->n_rows;
}

static int batch_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct batch *batch = ((struct batch_vtab *)base->pVtab)->batch;
    size_t row = ((struct batch_cursor *)base)->row;
    const struct cell *cell = &batch->cells[row * batch->def->n_stored + (size_t)column];
    switch ((enum cell_type)cell->type) {
    case CELL_NULL:
        break;
    case CELL_INT:
        sqlite3_result_int64(context, cell->integer);
        break;
    case CELL_REAL:
        sqlite3_result_double(context, cell->real);
        break;
    case CELL_TEXT:
        sqlite3_result_text64(context, cell->bytes, cell->size, SQLITE_STATIC, SQLITE_UTF8);
        break;
    case CELL_BLOB:
        sqlite3_result_blob64(context, cell->bytes, cell->size, SQLITE_STATIC);
        break;
    }
    return SQLITE_OK;
}

static int batch_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
    *ret = (sqlite3_int64)((struct batch_cursor *)base)->row;
    return SQLITE_OK;
}

static const sqlite3_module batch_module = {
    .iVersion = 1,
    .xCreate = batch_connect,
    .xConnect = batch_connect,
    .xBestIndex = batch_best_index,
    .xDisconnect = batch_disconnect,
    .xDestroy = batch_disconnect,
    .xOpen = batch_open,
    .xClose = batch_close,
    .xFilter = batch_filter,
    .xNext = batch_next,
    .xEof = batch_eof,
    .xColumn = batch_column,
    .xRowid = batch_rowid,
};

int batch_attach(struct sqlite3 *handle, struct batch *batches, size_t n)
{
    struct batch_list *list = sqlite3_malloc(sizeof(*list));
    if (!list)
        return SQLITE_NOMEM;
    *list = (struct batch_list){.batches = batches, .n = n};
    int r = sqlite3_create_module_v2(handle, "mmsql_batch", &batch_module, list, sqlite3_free);
    for (size_t i = 0; i < n && r == SQLITE_OK; i++) {
        char sql[128];
        snprintf(sql, sizeof(sql), "CREATE VIRTUAL TABLE temp.batch_%s USING mmsql_batch(%s)",
                 batches[i].def->name, batches[i].def->name);
        r = sqlite3_exec(handle, sql, NULL, NULL, NULL);
    }
    return r;
}

static int batch_prepare(struct batch *batch, struct sqlite3 *handle)
{
    const struct table_def *def = batch->def;
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    strbuf_addf(&sql, "INSERT INTO main.\"%s\"(", def->stored_name);
    for (size_t i = 0, n = 0; i < def->n_columns; i++)
        if (!def->columns[i].generated)
            strbuf_addf(&sql, "%s\"%s\"", n++ ? "," : "", def->columns[i].name);
    strbuf_addf(&sql, ") SELECT * FROM temp.batch_%s", def->name);
    if (sql.failed)
        return SQLITE_NOMEM;
    return sqlite3_prepare_v3(handle, sql.text, -1, SQLITE_PREPARE_PERSISTENT, &batch->insert,
                              NULL);
}

int batch_flush(struct batch *batch, struct sqlite3 *handle)
{
    if (!batch->n_rows)
        return SQLITE_OK;
    int r = batch->insert ? SQLITE_OK : batch_prepare(batch, handle);
    if (r == SQLITE_OK) {
        sqlite3_step(batch->insert);
        r = sqlite3_reset(batch->insert);
    }
    batch->n_written += batch->n_rows;
    batch->n_rows = 0;
    arena_done(&batch->copies);
    return r;
}

void batch_done(struct batch *batch)
{
    sqlite3_finalize(batch->insert);
    free(batch->cells);
    arena_done(&batch->copies);
    *batch = (struct batch){0};
}
