// SPDX-License-Identifier: Apache-2.0
//
// A hash recognises the same content before the conversion. Two files of one recording can have
// different bytes, because one file is cut or compressed. After the conversion, the trace_uuid
// recognises the recording. A config may set a trace_uuid, which all its recordings have, so the
// times and the recorder's start must match, too.
//
// Snapshots of one session share the second half of their uuids. Each snapshot is complete, so both
// are loaded. The common part is counted twice, and a message says so.
#include "converter/cli/sources.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/tables/rows.h"
#include "converter/tables/statement.h"

static void source_done(struct source *source)
{
    free(source->path);
    free(source->format);
    free(source->argument);
}

void sources_done(struct sources *sources)
{
    vec_foreach(&sources->all, source)
        source_done(source);
    source_vec_done(&sources->all);
}

int sources_add(struct sources *sources, const struct source *source)
{
    struct source copy = *source;
    copy.path = strdup(source->path);
    copy.format = strdup(source->format);
    copy.argument = source->argument ? strdup(source->argument) : NULL;
    if (copy.path && copy.format && (copy.argument || !source->argument) &&
        source_vec_push(&sources->all, copy) == 0)
        return 0;
    source_done(&copy);
    return -ENOMEM;
}

// Returns the last part of a path, or of a path in an archive.
static const char *last_part(const char *path)
{
    const char *last = path;
    for (const char *at = path; *at; at++)
        if (*at == '/' || *at == '!')
            last = at + 1;
    return last;
}

static bool is_about_the_same(const struct source *a, const struct source *b,
                              const struct file_format *format)
{
    if (!format)
        return true;
    if ((a->argument || b->argument) &&
        (!a->argument || !b->argument || !str_eq(a->argument, b->argument)))
        return false;
    // A file of this format with an equal name in another archive belongs to another time.
    return format->of_moment ? str_eq(a->path, b->path)
                             : str_eq(last_part(a->path), last_part(b->path));
}

const struct source *sources_find(const struct sources *sources, const struct source *content,
                                  const struct file_format *format)
{
    vec_foreach(&sources->all, source)
        if (source->hash == content->hash && source->size_bytes == content->size_bytes &&
            str_eq(source->format, content->format) && is_about_the_same(source, content, format))
            return source;
    return NULL;
}

// -- the table --

// Returns a copy of the column. NULL stays NULL.
static char *column_of(sqlite3_stmt *statement, int column)
{
    return (char *)(uintptr_t)sqlite3_column_text(statement, column);
}

int sources_load(struct sources *sources, struct sqlite3 *handle, struct err *err)
{
    static const char sql[] = "SELECT path, format, argument, size_bytes, content_hash, "
                              "coalesce(trace_id, -1) FROM main.input_file ORDER BY id";
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle, sql, -1, &statement, NULL), r = 0;
    while (code == SQLITE_OK && r == 0 && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *hash = column_of(statement, 4);
        struct source source = {
            .path = column_of(statement, 0),
            .format = column_of(statement, 1),
            .argument = column_of(statement, 2),
            .size_bytes = (uint64_t)sqlite3_column_int64(statement, 3),
            .hash = hash ? strtoull(hash, NULL, 16) : 0,
            .trace_id = sqlite3_column_int64(statement, 5),
        };
        r = source.path && source.format ? sources_add(sources, &source) : 0;
        code = SQLITE_OK;
    }
    sources->n_stored = sources->all.n;
    if (r < 0)
        return err_errno(err, r, "input_file");
    return code == SQLITE_DONE ? 0 : err_set(err, -EIO, "input_file: %s", sqlite3_errmsg(handle));
}

static void source_put(struct rows *rows, const struct source *source)
{
    char hash[17];
    snprintf(hash, sizeof(hash), "%016" PRIx64, source->hash);
    rows_text(rows, COL_input_file_path, source->path, strlen(source->path));
    rows_text(rows, COL_input_file_format, source->format, strlen(source->format));
    if (source->argument)
        rows_text(rows, COL_input_file_argument, source->argument, strlen(source->argument));
    rows_int(rows, COL_input_file_size_bytes, (int64_t)source->size_bytes);
    rows_text(rows, COL_input_file_content_hash, hash, 16);
    if (source->trace_id >= 0)
        rows_int(rows, COL_input_file_trace_id, source->trace_id);
    rows_put(rows);
}

int sources_write(struct sources *sources, struct sqlite3 *handle, struct err *err)
{
    CLEANUP(rows_close) struct rows rows = {0};
    int r = sql_run(handle, "BEGIN", "input_file", err);
    if (r == 0)
        r = rows_open(&rows, handle, TABLE_input_file, err);
    if (r < 0)
        return r;
    for (size_t i = sources->n_stored; i < sources->all.n; i++)
        source_put(&rows, &sources->all.items[i]);
    sources->n_stored = sources->all.n;
    r = rows_error(&rows, err);
    return r < 0 ? r : sql_run(handle, "COMMIT", "input_file", err);
}

// -- recordings --

// Compares the unshifted times of `t`. The real-time offsets distinguish two boots.
#define SAME_TIME                                                                                  \
    " t.start_ts - t.ts_shift <= p.end_ts AND p.start_ts <= t.end_ts - t.ts_shift AND "            \
    "coalesce(abs(t.realtime_offset - p.realtime_offset) < 500000000, 1) "
// The start of the recorder; NULL if the file lacks it.
#define STARTED(schema, trace)                                                                     \
    "(SELECT int_value FROM " schema ".metadata WHERE name = 'tracing_started_ns' AND "            \
    "coalesce(trace_id, " trace ".id) = " trace ".id)"
// The session: the uuid without the random half of each snapshot.
#define SESSION_OF(uuid) "substr(" uuid ", 20)"

static const char same_sql[] =
    "SELECT t.path, t.uuid, t.n_packets, p.n_packets FROM main.trace t JOIN part.trace p "
    "ON t.uuid = p.uuid WHERE" SAME_TIME
    "AND coalesce(" STARTED("main", "t") " = " STARTED("part", "p") ", 1) ORDER BY t.id LIMIT 1";
static const char overlap_sql[] =
    "SELECT t.path, (min(t.end_ts - t.ts_shift, p.end_ts) - "
    "max(t.start_ts - t.ts_shift, p.start_ts)) / 1e9 AS seconds, count(*) OVER (), t.id "
    "FROM main.trace t JOIN part.trace p "
    "ON " SESSION_OF("t.uuid") " = " SESSION_OF(
        "p.uuid") " AND t.uuid <> p.uuid WHERE" SAME_TIME
                  "AND t.end_ts > t.start_ts ORDER BY seconds DESC LIMIT 1";

// Sets *ret to the text that `say` makes of the first row. Without a row, *ret is unchanged.
static int row_ask(sqlite3 *handle, const char *sql, char *(*say)(sqlite3_stmt *row), char **ret,
                   struct err *err)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle, sql, -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_DONE)
        return 0;
    if (code != SQLITE_ROW)
        return err_set(err, -EIO, "trace: %s", sqlite3_errmsg(handle));
    char *said = say(statement);
    if (!said)
        return err_errno(err, -ENOMEM, "trace");
    *ret = said;
    return 0;
}

static char *same_say(sqlite3_stmt *row)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    strbuf_addf(&text, "the same recording as %s (trace_uuid %s)", column_text(row, 0),
                column_text(row, 1));
    if (sqlite3_column_int64(row, 2) != sqlite3_column_int64(row, 3))
        strbuf_addf(&text, ", which has %lld packets, and this file has %lld",
                    sqlite3_column_int64(row, 2), sqlite3_column_int64(row, 3));
    return strbuf_steal(&text);
}

static char *overlap_say(sqlite3_stmt *row)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    strbuf_addf(&text, "a snapshot of the same session as %s; both have the same %.1f s",
                column_text(row, 0), sqlite3_column_double(row, 1));
    if (sqlite3_column_int64(row, 2) > 1)
        strbuf_addf(&text, ", and %lld more have other parts of it",
                    sqlite3_column_int64(row, 2) - 1);
    strbuf_add_str(&text, "; rows of these times exist once for each trace (trace_machine leads "
                          "from machine_id to the trace)");
    return strbuf_steal(&text);
}

int trace_compare(struct sqlite3 *handle, const char *part, bool *ret_same, char **ret_text,
                  struct err *err)
{
    char *attach = sqlite3_mprintf("ATTACH %Q AS part", part);
    int r = attach ? sql_run(handle, attach, part, err) : err_errno(err, -ENOMEM, "%s", part);
    sqlite3_free(attach);
    if (r < 0)
        return r;
    char *text = NULL;
    r = row_ask(handle, same_sql, same_say, &text, err);
    bool same = text != NULL;
    if (r == 0 && !same)
        r = row_ask(handle, overlap_sql, overlap_say, &text, err);
    sqlite3_exec(handle, "DETACH part", NULL, NULL, NULL);
    if (r < 0)
        return r;
    *ret_same = same;
    *ret_text = text;
    return 0;
}
