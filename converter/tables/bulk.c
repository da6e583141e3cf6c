// SPDX-License-Identifier: Apache-2.0
//
// An empty table is a single page. The pages of the new tree go beyond the end of the file, but the
// root overwrites the table's page. Therefore the schema does not change, and no page stays unused.
// The change counter in the file's header makes SQLite drop its cache.
//
// After a failure, the page of each root becomes empty again, and the file is truncated to its old
// length.
//
// Invariant: between bulk_open() and bulk_free(), no other code makes the file longer.
#include "converter/tables/bulk.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/ground/budget.h"
#include "converter/tables/pages.h"
#include "converter/tables/statement.h"
#include "converter/tables/writer.h"

struct bulk {
    int fd;                // owned
    struct writer *writer; // owned
    const char *path;      // borrowed from SQLite, for people
    uint32_t n_pages;      // of the file, before
    bool finished;
    uint32_t roots[N_TABLES]; // 0: the bulk does not have the table
    struct batch *batches[N_TABLES];
    int64_t next_ids[N_TABLES];
    int failure;
};

// Returns the root page of the table; 0 if the table has rows or an index. Sets *failure after a
// failure.
static uint32_t empty_root(sqlite3 *handle, enum table_id table, int *failure)
{
    const char *name = table_defs[table].stored_name;
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    strbuf_addf(&sql,
                "SELECT iif(EXISTS (SELECT 1 FROM main.\"%s\") OR EXISTS (SELECT 1 FROM "
                "sqlite_master WHERE type = 'index' AND tbl_name = '%s'), 0, rootpage) "
                "FROM sqlite_master WHERE type = 'table' AND name = '%s'",
                name, name, name);
    if (sql.failed)
        *failure = -ENOMEM;
    return sql.failed ? 0 : (uint32_t)sql_number_or_failure(handle, sql.text, 0, failure);
}

DEFINE_CLEANUP(bulk_freep, struct bulk, bulk_free);

int bulk_open(struct sqlite3 *handle, const enum table_id *tables, size_t n_tables,
              struct budget *budget, struct err *err, struct bulk **ret)
{
    CLEANUP(bulk_freep) struct bulk *bulk = calloc(1, sizeof(*bulk));
    if (!bulk)
        return err_errno(err, -ENOMEM, "database");
    int r = 0;
    bool fits = true;
    bulk->fd = -1;
    for (size_t i = 0; i < n_tables && fits; i++)
        fits = (bulk->roots[tables[i]] = empty_root(handle, tables[i], &r));
    fits = fits && sql_number_or_failure(handle, "PRAGMA page_size", 0, &r) == PAGE_BYTES;
    bulk->n_pages = (uint32_t)sql_number_or_failure(handle, "PRAGMA page_count", 0, &r);
    if (r < 0)
        return err_errno(err, r, "database");
    if (!fits) {
        *ret = NULL;
        return 0;
    }
    bulk->path = sqlite3_db_filename(handle, "main");
    bulk->fd = open(bulk->path, O_RDWR | O_CLOEXEC);
    r = bulk->fd < 0 ? -errno : 0;
    const char *slash = strrchr(bulk->path, '/');
    CLEANUP(freep)
    char *folder = slash ? strndup(bulk->path, (size_t)(slash - bulk->path) + 1) : strdup(".");
    if (r == 0)
        r = folder ? writer_start(bulk->fd, folder, bulk->n_pages + 1, &bulk->writer) : -ENOMEM;
    if (r < 0)
        return err_errno(err, r, "%s", bulk->path);
    writer_budget(bulk->writer, budget);
    *ret = STEAL(bulk);
    return 0;
}

bool bulk_has(const struct bulk *bulk, enum table_id table)
{
    return bulk && bulk->roots[table];
}

int64_t bulk_next_id(const struct bulk *bulk, enum table_id table)
{
    return bulk->next_ids[table];
}

static void bulk_failed(struct bulk *bulk, int r)
{
    if (bulk->failure == 0)
        bulk->failure = r;
}

// Gives the table's full batch to the writer and begins a new batch. Returns NULL on failure.
static struct batch *batch_next(struct bulk *bulk, enum table_id table)
{
    struct batch **batch = &bulk->batches[table];
    if (*batch)
        bulk_failed(bulk, writer_put(bulk->writer, table, STEAL(*batch)));
    *batch = writer_batch(bulk->writer);
    if (!*batch)
        bulk_failed(bulk, -ENOMEM);
    return *batch;
}

static struct cell *row_make(struct bulk *bulk, enum table_id table, size_t width)
{
    struct batch *batch = bulk->batches[table];
    struct cell *row = batch ? batch_row(batch, width) : NULL;
    if (row)
        return row;
    batch = batch_next(bulk, table);
    return batch ? batch_row(batch, width) : NULL;
}

int64_t bulk_put(struct bulk *bulk, enum table_id table, const struct cell *row)
{
    size_t width = table_defs[table].n_stored;
    int64_t id = bulk->next_ids[table]++;
    struct cell *to = bulk->failure == 0 ? row_make(bulk, table, width) : NULL;
    if (!to)
        return id;
    memcpy(to, row, width * sizeof(*to));
    if (table_defs[table].columns[0].key)
        cell_int(to, 0, id);
    return id;
}

int64_t bulk_put_numbers(struct bulk *bulk, enum table_id table, const int64_t *numbers, size_t n)
{
    int64_t id = bulk->next_ids[table];
    struct batch *batch = bulk->batches[table];
    bulk->next_ids[table] += (int64_t)n;
    while (n && bulk->failure == 0) {
        size_t taken = batch ? batch_numbers(batch, numbers, n) : 0;
        numbers += taken;
        n -= taken;
        if (n)
            batch = batch_next(bulk, table);
    }
    return id;
}

int bulk_error(const struct bulk *bulk)
{
    return bulk->failure;
}

static void batches_put(struct bulk *bulk)
{
    for (size_t i = 0; i < N_TABLES; i++)
        if (bulk->batches[i])
            bulk_failed(bulk, writer_put(bulk->writer, (enum table_id)i, STEAL(bulk->batches[i])));
}

void bulk_settle(struct bulk *bulk)
{
    batches_put(bulk);
    bulk_failed(bulk, writer_drain(bulk->writer));
}

int bulk_finish(struct bulk *bulk, struct err *err)
{
    batches_put(bulk);
    if (bulk->failure == 0)
        bulk_failed(bulk, writer_finish_grown(bulk->writer, bulk->roots));
    bulk->finished = bulk->failure == 0;
    return bulk->failure < 0 ? err_errno(err, bulk->failure, "%s", bulk->path) : 0;
}

// Empties the tables, because a root may be written already. Ignores failures: a later use of the
// file reports them.
static void tables_empty(const struct bulk *bulk)
{
    uint8_t page[PAGE_BYTES] = {PAGE_LEAF};
    put_u16(page + PAGE_CONTENT_AT, PAGE_BYTES);
    for (size_t i = 0; i < N_TABLES; i++)
        if (bulk->roots[i] &&
            pwrite(bulk->fd, page, sizeof(page), (off_t)(bulk->roots[i] - 1) * PAGE_BYTES) < 0)
            return;
    if (ftruncate(bulk->fd, (off_t)bulk->n_pages * PAGE_BYTES) < 0)
        return;
}

struct bulk *bulk_free(struct bulk *bulk)
{
    if (!bulk)
        return NULL;
    if (bulk->writer)
        writer_abandon(bulk->writer);
    writer_free(bulk->writer);
    if (!bulk->finished && bulk->fd >= 0)
        tables_empty(bulk);
    for (size_t i = 0; i < N_TABLES; i++)
        batch_free(bulk->batches[i]);
    close_fd(bulk->fd);
    free(bulk);
    return NULL;
}
