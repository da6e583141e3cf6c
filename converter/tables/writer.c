// SPDX-License-Identifier: Apache-2.0
//
// INSERT ... SELECT from a virtual table is SQLite's fastest road for rows: one statement per
// batch, and values are taken over without binding. Each table has a virtual table, which shows
// whatever batch is being written.
//
// What must stay true: only the thread touches the handle while there is work; a batch belongs to
// the thread from the moment it is put; texts live until the batch is written, because SQLite
// copies them then.
#include "converter/tables/writer.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/str.h"

#define QUEUE_SIZE  16
#define REPLACEMENT 0xfffd

struct sink {
    const struct table_def *def;
    const struct batch *batch; // borrowed, while it is written
    sqlite3_stmt *insert;      // owned
};

struct job {
    enum table_id table;
    struct batch batch; // owned
};

struct writer {
    sqlite3 *handle; // borrowed
    struct sink sinks[N_TABLES];
    pthread_t thread;
    pthread_mutex_t lock; // of what follows
    pthread_cond_t changed;
    struct job queue[QUEUE_SIZE];
    size_t first, n;
    bool busy, end, started;
    int failure; // SQLite code
};

struct batch_vtab {
    sqlite3_vtab base;
    const struct sink *sink; // borrowed
};

struct batch_cursor {
    sqlite3_vtab_cursor base;
    size_t row;
};

static int batch_connect(sqlite3 *handle, void *userdata, int argc, const char *const *argv,
                         sqlite3_vtab **ret, char **ret_error)
{
    (void)ret_error;
    const struct writer *writer = userdata;
    const struct sink *sink = NULL;
    for (size_t i = 0; argc > 3 && i < N_TABLES; i++)
        if (str_eq(writer->sinks[i].def->name, argv[3]))
            sink = &writer->sinks[i];
    if (!sink)
        return SQLITE_ERROR;
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    strbuf_add_str(&sql, "CREATE TABLE b(");
    for (size_t i = 0; i < sink->def->n_stored; i++)
        strbuf_addf(&sql, "%sc%zu", i ? "," : "", i);
    strbuf_add_str(&sql, ")");
    struct batch_vtab *vtab = sqlite3_malloc(sizeof(*vtab));
    if (!vtab || sql.failed) {
        sqlite3_free(vtab);
        return SQLITE_NOMEM;
    }
    *vtab = (struct batch_vtab){.sink = sink};
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

static const struct sink *cursor_sink(sqlite3_vtab_cursor *base)
{
    return ((struct batch_vtab *)base->pVtab)->sink;
}

static int batch_eof(sqlite3_vtab_cursor *base)
{
    const struct batch *batch = cursor_sink(base)->batch;
    return !batch || ((struct batch_cursor *)base)->row >= batch->n_rows;
}

// Kernel names of tasks are cut in the middle of a character, paths have any bytes; but readers in
// other languages refuse a text that is no UTF-8. Such bytes become U+FFFD.
static void text_result(sqlite3_context *context, const struct cell *cell)
{
    const char *text = cell->bytes, *end = text + cell->size, *at = text;
    uint32_t code_point;
    while (at < end) {
        size_t n = (unsigned char)*at < 0x80 ? 1 : str_utf8_decode(at, end, &code_point);
        if (!n)
            break;
        at += n;
    }
    if (at == end) {
        sqlite3_result_text64(context, text, cell->size, SQLITE_STATIC, SQLITE_UTF8);
        return;
    }
    CLEANUP(strbuf_done) struct strbuf mended = {0};
    for (at = text; at < end;) {
        size_t n = str_utf8_decode(at, end, &code_point);
        if (n)
            strbuf_add(&mended, at, n);
        else
            strbuf_add_utf8(&mended, REPLACEMENT);
        at += n ? n : 1;
    }
    if (mended.failed)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_text64(context, mended.text, mended.size, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static int batch_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct sink *sink = cursor_sink(base);
    size_t row = ((struct batch_cursor *)base)->row;
    const struct cell *cell = &sink->batch->cells[row * sink->def->n_stored + (size_t)column];
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
        text_result(context, cell);
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

static int sinks_attach(struct writer *writer)
{
    int code = sqlite3_create_module_v2(writer->handle, "mmsql_batch", &batch_module, writer, NULL);
    for (size_t i = 0; i < N_TABLES; i++)
        writer->sinks[i].def = &table_defs[i];
    for (size_t i = 0; i < N_TABLES && code == SQLITE_OK; i++) {
        char sql[128];
        snprintf(sql, sizeof(sql), "CREATE VIRTUAL TABLE temp.batch_%s USING mmsql_batch(%s)",
                 table_defs[i].name, table_defs[i].name);
        code = sqlite3_exec(writer->handle, sql, NULL, NULL, NULL);
    }
    return code;
}

static int sink_prepare(struct sink *sink, sqlite3 *handle)
{
    const struct table_def *def = sink->def;
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    strbuf_addf(&sql, "INSERT INTO main.\"%s\"(", def->stored_name);
    for (size_t i = 0, n = 0; i < def->n_columns; i++)
        if (!def->columns[i].generated)
            strbuf_addf(&sql, "%s\"%s\"", n++ ? "," : "", def->columns[i].name);
    strbuf_addf(&sql, ") SELECT * FROM temp.batch_%s", def->name);
    if (sql.failed)
        return SQLITE_NOMEM;
    return sqlite3_prepare_v3(handle, sql.text, -1, SQLITE_PREPARE_PERSISTENT, &sink->insert, NULL);
}

static int sink_write(struct sink *sink, sqlite3 *handle, const struct batch *batch)
{
    int code = sink->insert ? SQLITE_OK : sink_prepare(sink, handle);
    if (code != SQLITE_OK)
        return code;
    sink->batch = batch;
    sqlite3_step(sink->insert);
    code = sqlite3_reset(sink->insert);
    sink->batch = NULL;
    return code;
}

static void *writer_run(void *userdata)
{
    struct writer *writer = userdata;
    pthread_mutex_lock(&writer->lock);
    while (!writer->end || writer->n) {
        if (!writer->n) {
            pthread_cond_wait(&writer->changed, &writer->lock);
            continue;
        }
        struct job job = writer->queue[writer->first];
        writer->first = (writer->first + 1) % QUEUE_SIZE;
        writer->n--;
        writer->busy = true;
        int code = writer->failure;
        pthread_cond_broadcast(&writer->changed);
        pthread_mutex_unlock(&writer->lock);
        if (code == SQLITE_OK)
            code = sink_write(&writer->sinks[job.table], writer->handle, &job.batch);
        batch_done(&job.batch);
        pthread_mutex_lock(&writer->lock);
        if (writer->failure == SQLITE_OK) // given up in the meantime, maybe
            writer->failure = code;
        writer->busy = false;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

int writer_start(struct sqlite3 *handle, struct writer **ret)
{
    struct writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return SQLITE_NOMEM;
    writer->handle = handle;
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->changed, NULL);
    *ret = writer;
    int code = sinks_attach(writer);
    if (code == SQLITE_OK && pthread_create(&writer->thread, NULL, writer_run, writer) != 0)
        code = SQLITE_NOMEM;
    writer->started = code == SQLITE_OK;
    return code;
}

int writer_put(struct writer *writer, enum table_id table, struct batch *batch)
{
    if (!batch->n_rows)
        return SQLITE_OK;
    pthread_mutex_lock(&writer->lock);
    while (writer->n == QUEUE_SIZE)
        pthread_cond_wait(&writer->changed, &writer->lock);
    int code = writer->failure;
    writer->queue[(writer->first + writer->n++) % QUEUE_SIZE] =
        (struct job){.table = table, .batch = *batch};
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    *batch = (struct batch){0};
    return code;
}

static int wait_idle(struct writer *writer)
{
    while (writer->n || writer->busy)
        pthread_cond_wait(&writer->changed, &writer->lock);
    return writer->failure;
}

int writer_drain(struct writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    int code = wait_idle(writer);
    pthread_mutex_unlock(&writer->lock);
    return code;
}

void writer_abandon(struct writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    if (writer->failure == SQLITE_OK)
        writer->failure = SQLITE_ABORT; // the thread drops what it finds from here on
    wait_idle(writer);
    pthread_mutex_unlock(&writer->lock);
}

struct writer *writer_free(struct writer *writer)
{
    if (!writer)
        return NULL;
    if (writer->started) {
        pthread_mutex_lock(&writer->lock);
        writer->end = true;
        pthread_cond_broadcast(&writer->changed);
        pthread_mutex_unlock(&writer->lock);
        pthread_join(writer->thread, NULL);
    }
    for (size_t i = 0; i < N_TABLES; i++)
        sqlite3_finalize(writer->sinks[i].insert);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
    return NULL;
}

void batch_done(struct batch *batch)
{
    free(batch->cells);
    arena_done(&batch->copies);
    *batch = (struct batch){0};
}
