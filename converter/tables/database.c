// SPDX-License-Identifier: Apache-2.0
//
// The temporary file is in the target's directory, so that rename() is atomic. The file has no
// journal and is not synced, because it is never recovered: it is completed and renamed, or
// removed. Tables are written as pages (see writer.c). SQLite opens the file only at the end: the
// roots of the tables are added to its schema, and SQLite makes views and indexes.
#include "converter/tables/database.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/str.h"
#include "converter/ground/spill.h"
#include "converter/sql/sql.h"
#include "converter/tables/arg_views.h"
#include "converter/tables/defend.h"
#include "converter/tables/indexes.h"
#include "converter/tables/meaning.h"
#include "converter/tables/statement.h"
#include "converter/tables/writer.h"

#define CACHE_KIB   8192
#define WATCH_STEPS 100000 // instructions of SQLite's virtual machine, some milliseconds

static const struct selection everything;

struct database {
    sqlite3 *handle;       // owned; NULL until the tables are written
    char *path;            // owned; NULL: a temporary database
    char *shown;           // owned; the path for messages
    char *temporary;       // owned; NULL after the rename
    int fd;                // owned; of the temporary file
    struct writer *writer; // owned
    struct table_state {
        struct batch *batch; // owned
        uint64_t n_rows;
        int64_t next_id;
    } tables[N_TABLES];
    const struct selection *selection;     // borrowed
    const struct id_shifts *shifts;        // borrowed; NULL: none
    struct batch *current;                 // batch of the last row
    struct cell nowhere[RECORD_CELLS_MAX]; // discarded rows
    struct failure failure;
    uint64_t n_bytes;
};

static const char *place(const struct database *db)
{
    return db->path ? err_name(db->shown) : "temporary database";
}

static int database_failed(struct database *db, int r)
{
    if (!failure_note(&db->failure, r))
        return db->failure.code;
    if (r == -ENOSPC) {
        err_set(&db->failure.err, r, "%s: no space left", place(db));
        err_hint(&db->failure.err, r, "the database needs a few times the trace's size");
    } else if (r == -EDQUOT) {
        err_set(&db->failure.err, r, "%s: --max-output is reached", place(db));
        err_hint(&db->failure.err, r, "give more, or convert fewer tables with --tables");
    } else {
        err_errno(&db->failure.err, r, "%s", place(db));
    }
    return r;
}

static int sqlite_failed(struct database *db, int code)
{
    if (code == SQLITE_OK || db->failure.code < 0)
        return db->failure.code;
    if (code == SQLITE_FULL || sqlite3_system_errno(db->handle) == ENOSPC)
        return database_failed(db, -ENOSPC);
    int r = code == SQLITE_NOMEM ? -ENOMEM : code == SQLITE_INTERRUPT ? -ECANCELED : -EIO;
    db->failure.code = r;
    return err_set(&db->failure.err, r, "%s: %s", place(db), sqlite3_errmsg(db->handle));
}

struct failure *database_failure(struct database *db)
{
    return &db->failure;
}

int database_error(const struct database *db, struct err *err)
{
    if (db->failure.code < 0 && err)
        *err = db->failure.err;
    return db->failure.code;
}

int database_target_check(const char *path, struct err *err)
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
    int n = db->path ? asprintf(&db->temporary, "%s.XXXXXX", db->path)
                     : asprintf(&db->temporary, "%s/mmsql.XXXXXX", temporary_folder(NULL));
    if (n < 0) {
        db->temporary = NULL;
        return err_errno(err, -ENOMEM, "database");
    }
    db->fd = mkostemp(db->temporary, O_CLOEXEC);
    if (db->fd < 0) {
        int r = err_errno(err, -errno, "%s", db->path ? db->shown : db->temporary);
        free(STEAL(db->temporary));
        return r;
    }
    if (!db->path)
        return 0;
    mode_t mask = umask(0);
    umask(mask);
    fchmod(db->fd, 0666 & ~mask);
    return 0;
}

static int writer_make(struct database *db, struct err *err)
{
    char *end = strrchr(db->temporary, '/');
    CLEANUP(freep)
    char *folder = end ? strndup(db->temporary, (size_t)(end - db->temporary) + 1) : strdup(".");
    int r = folder ? writer_start(db->fd, folder, 2, &db->writer) : -ENOMEM;
    if (r == -EAGAIN)
        return err_errno(err, r, "database: no thread can be started");
    return r < 0 ? err_errno(err, r, "database") : 0;
}

void database_select(struct database *db, const struct selection *selection)
{
    db->selection = selection;
}

void database_shift_ids(struct database *db, const struct id_shifts *shifts)
{
    db->shifts = shifts;
    writer_shift_ids(db->writer, shifts);
}

void database_budget(struct database *db, struct budget *budget)
{
    writer_budget(db->writer, budget);
}

const struct selection *database_selection(const struct database *db)
{
    return db->selection;
}

struct cell *database_nowhere(struct database *db)
{
    return db->nowhere;
}

int database_create(const char *path, struct err *err, struct database **ret)
{
    struct database *db = calloc(1, sizeof(*db));
    if (!db)
        return err_errno(err, -ENOMEM, "database");
    db->fd = -1;
    db->selection = &everything;
    int r = path ? database_target_check(path, err) : 0;
    if (r == 0 && path && (!(db->path = strdup(path)) || !(db->shown = path_shown(path))))
        r = err_errno(err, -ENOMEM, "database");
    if (r == 0)
        r = temporary_make(db, err);
    if (r == 0)
        r = writer_make(db, err);
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

static bool is_dropped(const struct database *db, enum table_id table)
{
    return db->failure.code < 0 || db->selection->dropped[table];
}

// Gives the table's full batch to the writer and begins another. Returns false after a failure.
static bool batch_renew(struct database *db, enum table_id table)
{
    struct table_state *state = &db->tables[table];
    if (state->batch)
        database_failed(db, writer_put(db->writer, table, STEAL(state->batch)));
    state->batch = writer_batch(db->writer);
    if (!state->batch)
        database_failed(db, -ENOMEM);
    return db->failure.code == 0;
}

struct cell *database_row_sized(struct database *db, enum table_id table, int64_t id, size_t width)
{
    struct table_state *state = &db->tables[table];
    if (is_dropped(db, table))
        return db->nowhere;
    struct cell *row = state->batch ? batch_row(state->batch, width) : NULL;
    if (!row) {
        if (!batch_renew(db, table))
            return db->nowhere;
        row = batch_row(state->batch, width);
    }
    db->current = state->batch;
    state->n_rows++;
    if (table_defs[table].columns[0].key)
        cell_int(row, 0, id);
    return row;
}

void database_event(struct database *db, const struct event_row *event)
{
    struct table_state *state = &db->tables[TABLE__arg_set];
    if (is_dropped(db, TABLE__arg_set))
        return;
    struct event_row *row = state->batch ? batch_event(state->batch) : NULL;
    if (!row && batch_renew(db, TABLE__arg_set))
        row = batch_event(state->batch);
    if (!row)
        return;
    *row = *event;
    row->id = state->next_id++;
    state->n_rows++;
}

struct cell *database_row_with_id(struct database *db, enum table_id table, int64_t id)
{
    return database_row_sized(db, table, id, table_defs[table].n_stored);
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
    if (db->failure.code < 0 || !db->current)
        return "";
    char *copy = arena_strndup(&db->current->copies, bytes, size);
    if (!copy)
        database_failed(db, -ENOMEM);
    return copy ? copy : "";
}

uint64_t database_n_rows(const struct database *db, enum table_id table)
{
    return db->tables[table].n_rows;
}

int database_flush(struct database *db, struct err *err)
{
    for (enum table_id table = 0; table < N_TABLES && db->failure.code == 0; table++)
        if (db->tables[table].batch)
            database_failed(db, writer_put(db->writer, table, STEAL(db->tables[table].batch)));
    database_failed(db, writer_drain(db->writer));
    db->current = NULL;
    return database_error(db, err);
}

void database_abandon(struct database *db)
{
    writer_abandon(db->writer);
    if (failure_note(&db->failure, -ECANCELED))
        err_set(&db->failure.err, -ECANCELED, "given up");
}

void database_move_track(struct database *db, enum table_id table, uint32_t from, uint32_t to)
{
    database_failed(db, writer_move_group(db->writer, table, from, to));
}

// Adds a REFERENCES clause for the table that the column refers to, for programs that show
// relations of tables. SQLite checks references only if a program turns the check on.
static void reference_sql(struct strbuf *sql, enum table_id table, const struct column_def *column)
{
    struct column_meaning meaning = column_meaning_of(table, column);
    const struct table_def *of = &table_defs[meaning.of];
    if (meaning.sense == SENSE_ROW && of->columns[0].key && !table_cluster(meaning.of))
        strbuf_addf(sql, " REFERENCES \"%s\"", of->stored_name);
}

static void table_sql(struct strbuf *sql, const struct table_def *def)
{
    const struct index_def *cluster = table_cluster((enum table_id)(def - table_defs));
    strbuf_addf(sql, "CREATE TABLE \"%s\"(", def->stored_name);
    for (size_t i = 0, n = 0; i < def->n_columns; i++) {
        const struct column_def *column = &def->columns[i];
        if (column->generated)
            continue;
        strbuf_addf(sql, "%s\"%s\" %s%s", n++ ? ", " : "", column->name,
                    column_type_name(column->type), column->key && !cluster ? " PRIMARY KEY" : "");
        reference_sql(sql, (enum table_id)(def - table_defs), column);
    }
    if (cluster)
        cluster_sql(sql, cluster);
    else
        strbuf_add_str(sql, ")");
}

static void view_sql(struct strbuf *sql, const struct table_def *def)
{
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

static int root_register(sqlite3_stmt *insert, const char *type, const char *name,
                         const char *table, uint32_t root, const char *sql)
{
    sqlite3_bind_text(insert, 1, type, -1, SQLITE_STATIC);
    sqlite3_bind_text(insert, 2, name, -1, SQLITE_STATIC);
    sqlite3_bind_text(insert, 3, table, -1, SQLITE_STATIC);
    sqlite3_bind_int64(insert, 4, root);
    sqlite3_bind_text(insert, 5, sql, -1, SQLITE_STATIC);
    sqlite3_step(insert);
    return sqlite3_reset(insert);
}

static int insert_prepare(sqlite3 *handle, sqlite3_stmt **ret)
{
    return sqlite3_prepare_v2(handle,
                              "INSERT INTO sqlite_master(type, name, tbl_name, rootpage, sql) "
                              "VALUES(?, ?, ?, ?, ?)",
                              -1, ret, NULL);
}

// Adds the roots of tables and indexes to SQLite's schema.
static int roots_register(sqlite3 *handle, const struct writer_result *written)
{
    sqlite3_stmt *insert = NULL;
    int code = sqlite3_exec(handle, "PRAGMA writable_schema=ON; BEGIN;", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = insert_prepare(handle, &insert);
    for (size_t i = 0; i < N_TABLES && code == SQLITE_OK; i++) {
        CLEANUP(strbuf_done) struct strbuf sql = {0};
        const char *name = table_defs[i].stored_name;
        table_sql(&sql, &table_defs[i]);
        code = sql.failed ? SQLITE_NOMEM
                          : root_register(insert, "table", name, name, written->roots[i], sql.text);
    }
    for (size_t i = 0; i < N_INDEXES && code == SQLITE_OK; i++) {
        CLEANUP(strbuf_done) struct strbuf sql = {0};
        index_sql(&sql, &index_defs[i]);
        if (sql.failed)
            code = SQLITE_NOMEM;
        else if (written->indexes[i].root && !index_defs[i].is_table)
            code = root_register(insert, "index", index_defs[i].name,
                                 table_defs[index_defs[i].table].stored_name,
                                 written->indexes[i].root, sql.text);
    }
    sqlite3_finalize(insert);
    if (code == SQLITE_OK)
        code = sqlite3_exec(handle, "COMMIT; PRAGMA writable_schema=RESET;", NULL, NULL, NULL);
    return code;
}

// Adds a row of sqlite_stat1, "COUNT EACH...": number of entries, then the average number of
// entries that share the first column, the first two columns, ...
static void index_stat(struct strbuf *sql, const struct index_def *def,
                       const struct index_result *written)
{
    strbuf_addf(sql, ",('%s','%s','%" PRIu64, table_defs[def->table].stored_name, def->name,
                written->n);
    for (size_t i = index_has_group(def) ? 0 : 1; i < def->n_key; i++)
        strbuf_addf(sql, " %" PRIu64,
                    (written->n + written->n_distinct[i] - 1) / written->n_distinct[i]);
    strbuf_add_str(sql, "')");
}

// Adds SQL that fills sqlite_stat1 as ANALYZE would. The writer knows the numbers of large tables,
// so SQLite need not read these tables.
static void stats_sql(struct strbuf *sql, const struct database *db,
                      const struct writer_result *written)
{
    bool indexed[N_TABLES] = {false};
    strbuf_add_str(sql, small_indexes_analyze_sql);
    strbuf_add_str(sql, "ANALYZE sqlite_master;"); // makes sqlite_stat1 if it is missing
    for (size_t i = 0; i < N_INDEXES; i++)
        if (!(indexed[index_defs[i].table] = written->indexes[i].root))
            strbuf_addf(sql, "ANALYZE %s;", table_defs[index_defs[i].table].stored_name);
    strbuf_add_str(sql, "INSERT INTO sqlite_stat1 SELECT * FROM (VALUES(NULL,NULL,NULL)");
    for (size_t i = 0; i < N_INDEXES; i++)
        if (written->indexes[i].n)
            index_stat(sql, &index_defs[i], &written->indexes[i]);
    for (size_t i = 0; i < N_TABLES; i++)
        if (!indexed[i] && db->tables[i].n_rows)
            strbuf_addf(sql, ",('%s',NULL,'%" PRIu64 "')", table_defs[i].stored_name,
                        db->tables[i].n_rows);
    strbuf_add_str(sql, ") WHERE column1 NOT IN (SELECT tbl FROM sqlite_stat1);");
    strbuf_add_str(sql, text_index_size_sql);
    strbuf_add_str(sql, "ANALYZE sqlite_master;"); // makes this connection read sqlite_stat1
}

// Registers the views of a script, which has statements CREATE VIEW only. SQLite does not read the
// views here: SQLite reads the schema when a handle is opened.
static int views_register(sqlite3_stmt *insert, const char *script)
{
    static const char begin[] = "CREATE VIEW ";
    int code = SQLITE_OK;
    for (const char *end; code == SQLITE_OK && *script; script = end + 1) {
        CLEANUP(strbuf_done) struct strbuf sql = {0}, name = {0};
        end = strstr(script, ";\n");
        if (!end || !str_starts_with(script, begin))
            return SQLITE_MISUSE;
        strbuf_add(&sql, script, (size_t)(end++ - script));
        const char *from = script + strlen(begin);
        from += *from == '"';
        strbuf_add(&name, from, strcspn(from, "\" "));
        if (sql.failed || name.failed)
            return SQLITE_NOMEM;
        code = root_register(insert, "view", name.text, name.text, 0, sql.text);
    }
    return code;
}

static int all_views_register(sqlite3 *handle)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *insert = NULL;
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    for (size_t i = 0; i < N_TABLES; i++)
        view_sql(&sql, &table_defs[i]);
    int code = sqlite3_exec(handle, "PRAGMA writable_schema=ON", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = insert_prepare(handle, &insert);
    if (code == SQLITE_OK)
        code = sql.failed ? SQLITE_NOMEM : views_register(insert, sql.text);
    for (const char *const *script = sql_scripts; *script && code == SQLITE_OK; script++)
        code = views_register(insert, *script);
    return code;
}

static int schema_make(struct database *db, const struct writer_result *written)
{
    CLEANUP(strbuf_done) struct strbuf sql = {0};
    strbuf_addf(&sql,
                "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE;"
                "PRAGMA cache_size=-%d; PRAGMA temp_store=FILE; PRAGMA user_version=%d;",
                CACHE_KIB, DATABASE_SCHEMA_VERSION);
    int code = sqlite3_exec(db->handle, sql.text, NULL, NULL, NULL);
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
    if (code == SQLITE_OK)
        code = roots_register(db->handle, written);
    strbuf_clear(&sql);
    strbuf_add_str(&sql, "BEGIN;");
    for (size_t i = 0; i < N_INDEXES; i++) {
        if (written->indexes[i].root)
            continue;
        index_sql(&sql, &index_defs[i]);
        strbuf_add_char(&sql, ';');
    }
    strbuf_add_str(&sql, small_indexes_sql);
    if (db->tables[TABLE__profiler_counter_set].n_rows)
        strbuf_add_str(&sql, counter_ids_sql);
    stats_sql(&sql, db, written);
    if (sql.failed)
        return SQLITE_NOMEM;
    if (code == SQLITE_OK)
        code = sqlite3_exec(db->handle, sql.text, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = all_views_register(db->handle);
    if (code == SQLITE_OK)
        code = arg_views_make(db->handle);
    return code == SQLITE_OK
               ? sqlite3_exec(db->handle, "COMMIT; PRAGMA writable_schema=RESET", NULL, NULL, NULL)
               : code;
}

static int temporary_rename(struct database *db, struct err *err)
{
    struct stat st;
    if (stat(db->temporary, &st) == 0)
        db->n_bytes = (uint64_t)st.st_size;
    if (rename(db->temporary, db->path) < 0)
        return err_errno(err, -errno, "%s", db->shown);
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
    struct writer_result written;
    if (database_flush(db, err) < 0 ||
        database_failed(db, writer_finish(db->writer, DATABASE_APPLICATION_ID, &written)) < 0)
        return database_error(db, err);
    db->writer = writer_free(db->writer);
    db->fd = close_fd(db->fd);
    int code = handle_open_written(db->temporary, SQLITE_OPEN_READWRITE, &db->handle);
    if (goes_on && code == SQLITE_OK)
        sqlite3_progress_handler(db->handle, WATCH_STEPS, watch_stops, &watch);
    if (code == SQLITE_OK)
        code = schema_make(db, &written);
    if (code == SQLITE_OK)
        code = handle_defend(db->handle);
    if (sqlite_failed(db, code) < 0)
        return database_error(db, err);
    sqlite3_progress_handler(db->handle, 0, NULL, NULL);
    if (!db->path) {
        unlink(db->temporary);
        free(STEAL(db->temporary));
        return 0;
    }
    if (sqlite_failed(db, sqlite3_close(db->handle)) < 0)
        return database_error(db, err);
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
        batch_free(db->tables[i].batch);
    sqlite3_close(db->handle);
    close_fd(db->fd);
    if (db->temporary)
        unlink(db->temporary);
    free(db->temporary);
    free(db->path);
    free(db->shown);
    free(db);
    errno = saved;
    return NULL;
}
