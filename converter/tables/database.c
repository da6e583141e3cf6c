// SPDX-License-Identifier: Apache-2.0
//
// The temporary file lies in the target's directory, so that rename() is atomic. It is written
// without journal and without syncing, because nobody will ever recover it: it is finished and
// renamed, or removed. Indexes are made at the end, from sorted data, which is several times
// cheaper than keeping them while rows come in.
#include "converter/tables/database.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/sql/sql.h"
#include "converter/tables/writer.h"

#define CACHE_KIB   8192
#define WATCH_STEPS 100000 // of SQLite's machine, some milliseconds

struct database {
    sqlite3 *handle;       // owned
    char *path;            // owned; NULL: in memory
    char *temporary;       // owned; NULL once it has its name
    struct writer *writer; // owned
    struct table_state {
        struct batch batch;
        uint64_t n_rows;
        int64_t next_id;
    } tables[N_TABLES];
    struct batch *current;  // of the row made last
    struct cell *nowhere;   // owned, rows go here after a failure
    int failure;            // negative errno of the first failure
    struct err failure_err; // its text
    uint64_t n_bytes;
};

void cell_text(struct cell *row, size_t column, const char *text)
{
    if (text)
        cell_bytes(row, column, text, strlen(text));
}

static int database_failed(struct database *db, int code)
{
    if (code == SQLITE_OK || db->failure < 0)
        return db->failure;
    db->failure = code == SQLITE_NOMEM       ? -ENOMEM
                  : code == SQLITE_FULL      ? -ENOSPC
                  : code == SQLITE_INTERRUPT ? -ECANCELED
                                             : -EIO;
    int system_errno = sqlite3_system_errno(db->handle);
    if (code == SQLITE_FULL || system_errno == ENOSPC) {
        err_set(&db->failure_err, db->failure, "%s: no space left", db->path ? db->path : "memory");
        err_hint(&db->failure_err, db->failure, "the database needs a few times the trace's size");
    } else {
        err_set(&db->failure_err, db->failure, "%s: %s", db->path ? db->path : "memory",
                sqlite3_errmsg(db->handle));
    }
    return db->failure;
}

int database_error(const struct database *db, struct err *err)
{
    if (db->failure < 0 && err)
        *err = db->failure_err;
    return db->failure;
}

// The target may be absent, empty, or a database that this program made.
static int target_check(const char *path, struct err *err)
{
    CLEANUP(close_fdp) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_errno(err, -errno, "%s", path);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "%s: not a regular file", path);
    uint8_t head[72];
    ssize_t n = pread(fd, head, sizeof(head), 0);
    if (n == 0)
        return 0;
    static const uint8_t id[4] = {
        DATABASE_APPLICATION_ID >> 24, DATABASE_APPLICATION_ID >> 16 & 0xff,
        DATABASE_APPLICATION_ID >> 8 & 0xff, DATABASE_APPLICATION_ID & 0xff};
    bool is_database = n == (ssize_t)sizeof(head) && memcmp(head, "SQLite format 3", 16) == 0;
    if (is_database && memcmp(head + 68, id, sizeof(id)) == 0)
        return 0;
    err_set(err, -EEXIST, "%s: exists and is not a database made by mmsql", path);
    return err_hint(err, -EEXIST, "remove it, or choose another name");
}

static int temporary_make(struct database *db, struct err *err)
{
    if (asprintf(&db->temporary, "%s.XXXXXX", db->path) < 0) {
        db->temporary = NULL;
        return -ENOMEM;
    }
    int fd = mkostemp(db->temporary, O_CLOEXEC);
    if (fd < 0) {
        int r = err_errno(err, -errno, "%s", db->path);
        free(STEAL(db->temporary));
        return r;
    }
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask);
    close_fd(fd);
    return 0;
}

static void table_ddl(struct strbuf *sql, const struct table_def *def)
{
    strbuf_addf(sql, "CREATE TABLE \"%s\"(", def->stored_name);
    for (size_t i = 0, n = 0; i < def->n_columns; i++) {
        const struct column_def *column = &def->columns[i];
        if (!column->generated)
            strbuf_addf(sql, "%s\"%s\" %s%s", n++ ? ", " : "", column->name,
                        column_type_name(column->type), column->key ? " PRIMARY KEY" : "");
    }
    if (def->primary_key)
        strbuf_addf(sql, ", PRIMARY KEY(%s)) WITHOUT ROWID;\n", def->primary_key);
    else
        strbuf_add_str(sql, ");\n");
    if (str_eq(def->name, def->stored_name))
        return;
    strbuf_addf(sql, "CREATE VIEW \"%s\" AS SELECT ", def->name);
    for (size_t i = 0, n = 0; i < def->n_columns; i++) {
        const struct column_def *column = &def->columns[i];
        if (column->hidden)
            continue;
        strbuf_add_str(sql, n++ ? ", " : "");
        if (column->generated)
            strbuf_addf(sql, "%s AS ", column->generated);
        strbuf_addf(sql, "\"%s\"", column->name);
    }
    strbuf_addf(sql, " FROM \"%s\";\n", def->stored_name);
}

static int schema_make(struct database *db)
{
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    strbuf_addf(&sql,
                "PRAGMA application_id=%d; PRAGMA page_size=4096; PRAGMA journal_mode=OFF;"
                "PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-%d;"
                "PRAGMA temp_store=FILE; BEGIN;\n",
                DATABASE_APPLICATION_ID, CACHE_KIB);
    for (size_t i = 0; i < N_TABLES; i++)
        table_ddl(&sql, &table_defs[i]);
    for (const char *const *script = sql_scripts; *script; script++)
        strbuf_add_str(&sql, *script);
    if (sql.failed)
        return SQLITE_NOMEM;
    return sqlite3_exec(db->handle, sql.text, NULL, NULL, NULL);
}

int database_create(const char *path, struct err *err, struct database **ret)
{
    struct database *db = calloc(1, sizeof(*db));
    if (!db)
        return err_errno(err, -ENOMEM, "database");
    size_t n_cells_max = 1;
    for (size_t i = 0; i < N_TABLES; i++)
        if (table_defs[i].n_stored > n_cells_max)
            n_cells_max = table_defs[i].n_stored;
    db->nowhere = calloc(n_cells_max, sizeof(*db->nowhere));
    int r = db->nowhere ? 0 : err_errno(err, -ENOMEM, "database");
    if (r == 0 && path) {
        r = target_check(path, err);
        if (r == 0 && !(db->path = strdup(path)))
            r = err_errno(err, -ENOMEM, "database");
        if (r == 0)
            r = temporary_make(db, err);
    }
    if (r == 0) {
        int code = sqlite3_open_v2(path ? db->temporary : ":memory:", &db->handle,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
        if (code == SQLITE_OK)
            code = schema_make(db);
        if (code == SQLITE_OK)
            code = writer_start(db->handle, &db->writer);
        r = database_failed(db, code);
        database_error(db, err);
    }
    if (r < 0) {
        database_free(db);
        return r;
    }
    *ret = db;
    return 0;
}

int64_t database_reserve_id(struct database *db, enum table_id table)
{
    return db->tables[table].next_id++;
}

// The handle is the writer's while it works, so a failure waits for it to stand still.
static int writer_failed(struct database *db, int code)
{
    if (code != SQLITE_OK)
        writer_drain(db->writer);
    return database_failed(db, code);
}

struct cell *database_row_with_id(struct database *db, enum table_id table, int64_t id)
{
    struct table_state *state = &db->tables[table];
    const struct table_def *def = &table_defs[table];
    struct batch *batch = &state->batch;
    if (db->failure < 0)
        return db->nowhere;
    if (batch->n_rows == BATCH_ROWS && writer_failed(db, writer_put(db->writer, table, batch)) < 0)
        return db->nowhere;
    size_t n = def->n_stored;
    if (!batch->cells && !(batch->cells = malloc(BATCH_ROWS * n * sizeof(*batch->cells)))) {
        database_failed(db, SQLITE_NOMEM);
        return db->nowhere;
    }
    db->current = batch;
    struct cell *row = &batch->cells[batch->n_rows++ * n];
    state->n_rows++;
    memset(row, 0, n * sizeof(*row));
    if (def->columns[0].key)
        cell_int(row, 0, id);
    return row;
}

struct cell *database_row(struct database *db, enum table_id table, int64_t *ret_id)
{
    int64_t id = database_reserve_id(db, table);
    if (ret_id)
        *ret_id = id;
    return database_row_with_id(db, table, id);
}

const void *database_copy(struct database *db, const void *bytes, size_t size)
{
    if (db->failure < 0 || !db->current)
        return "";
    char *copy = arena_strndup(&db->current->copies, bytes, size);
    if (!copy)
        database_failed(db, SQLITE_NOMEM);
    return copy ? copy : "";
}

uint64_t database_n_rows(const struct database *db, enum table_id table)
{
    return db->tables[table].n_rows;
}

int database_flush(struct database *db, struct err *err)
{
    for (enum table_id table = 0; table < N_TABLES && db->failure == 0; table++)
        writer_failed(db, writer_put(db->writer, table, &db->tables[table].batch));
    writer_failed(db, writer_drain(db->writer));
    return database_error(db, err);
}

void database_abandon(struct database *db)
{
    writer_abandon(db->writer);
    if (db->failure == 0)
        db->failure = err_set(&db->failure_err, -ECANCELED, "given up");
}

int database_exec(struct database *db, const char *sql, struct err *err)
{
    if (db->failure == 0)
        database_failed(db, sqlite3_exec(db->handle, sql, NULL, NULL, NULL));
    return database_error(db, err);
}

// What the usual joins and time ranges need, and no more: every index costs time and room.
static const char indexes_sql[] = "CREATE INDEX counter_by_track ON counter(track_id, ts);"
                                  "CREATE INDEX slice_by_track ON _slice(track_id);"
                                  "CREATE INDEX page_residency_sample_by_file "
                                  "ON page_residency_sample(file_id, ts);"
                                  "CREATE INDEX page_residency_span_by_file "
                                  "ON _page_residency_span(file_id, last_sample_id);"
                                  "COMMIT;";

static int temporary_rename(struct database *db, struct err *err)
{
    struct stat st;
    if (stat(db->temporary, &st) == 0)
        db->n_bytes = (uint64_t)st.st_size;
    if (rename(db->temporary, db->path) < 0)
        return err_errno(err, -errno, "%s", db->path);
    free(STEAL(db->temporary));
    return 0;
}

struct watch {
    bool (*goes_on)(void *userdata);
    void *userdata;
};

static int watch_stops(void *userdata)
{
    const struct watch *watch = userdata;
    return !watch->goes_on(watch->userdata);
}

int database_finish(struct database *db, bool (*goes_on)(void *userdata), void *userdata,
                    struct err *err)
{
    struct watch watch = {goes_on, userdata};
    int r = database_flush(db, err);
    if (goes_on)
        sqlite3_progress_handler(db->handle, WATCH_STEPS, watch_stops, &watch);
    if (r == 0)
        r = database_exec(db, indexes_sql, err);
    sqlite3_progress_handler(db->handle, 0, NULL, NULL);
    if (r < 0 || !db->path)
        return r;
    db->writer = writer_free(db->writer);
    int code = sqlite3_close(db->handle);
    if (code != SQLITE_OK) {
        database_failed(db, code);
        return database_error(db, err);
    }
    db->handle = NULL;
    return temporary_rename(db, err);
}

struct sqlite3 *database_handle(struct database *db)
{
    return db->handle;
}

uint64_t database_n_bytes(const struct database *db)
{
    return db->n_bytes;
}

struct database *database_free(struct database *db)
{
    if (!db)
        return NULL;
    int saved = errno;
    writer_free(db->writer);
    for (size_t i = 0; i < N_TABLES; i++)
        batch_done(&db->tables[i].batch);
    sqlite3_close(db->handle);
    if (db->temporary)
        unlink(db->temporary);
    free(db->temporary);
    free(db->path);
    free(db->nowhere);
    free(db);
    errno = saved;
    return NULL;
}
