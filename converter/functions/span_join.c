// SPDX-License-Identifier: Apache-2.0
//
// CREATE VIRTUAL TABLE x USING SPAN_JOIN(a PARTITIONED p, b PARTITIONED p): the intersections of
// the spans of two tables, with the columns of both. SPAN_LEFT_JOIN adds the remaining times of the
// first table, SPAN_OUTER_JOIN the remaining times of both tables.
//
// Each table has ts and dur, and its spans do not overlap within a partition. Both tables are
// therefore read once, side by side, in order of partition and time. The rest of a row is kept for
// the next piece. A row of duration 0 meets the row of the other table at its time. A row that has
// not ended (dur is -1) also meets the row at its time, and their piece has not ended, either. Rows
// without a partition are left out. One table may lack dur: its rows have duration 0.
//
// If only one table is partitioned, the other table counts in each partition: it is read once for
// each partition, and its pieces belong to the current partition.
#include "converter/functions/functions.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

#define NAME_BYTES  128
#define COLUMNS_MAX 256

#define COLUMN_PARTITION 2 // if a side has a partition

enum kind { KIND_INNER, KIND_LEFT, KIND_OUTER };

struct side {
    char name[NAME_BYTES];
    char partition[NAME_BYTES]; // "": none
    int n_columns;              // columns beside ts, dur and the partition
    bool has_dur;
    char *sql; // owned: SELECT of partition, ts, dur, columns; not sorted
};

struct span_table {
    sqlite3_vtab base;
    sqlite3 *handle; // borrowed
    enum kind kind;
    bool partitioned; // one side, or both
    int whole;        // the side without partitions, which counts in each partition; -1: none
    struct side sides[2];
};

struct stream {
    sqlite3_stmt *statement; // owned
    bool of_one;             // the statement reads one partition
    bool at_end, endless;    // endless: the row has not ended
    int64_t ts, end;         // of the rest of the row
};

struct span_cursor {
    sqlite3_vtab_cursor base;
    struct stream streams[2];
    bool has[2], at_end; // has: the sides of the current row
    int64_t ts, end, row;
    bool any_partition; // if a side counts in each partition: a partition has begun
    int64_t partition;  // if a side counts in each partition: the current partition
};

// Parses "NAME" or "NAME PARTITIONED COLUMN".
static bool side_parse(const char *text, struct side *ret)
{
    char words[3][NAME_BYTES] = {{0}};
    int n = 0;
    while (*text) {
        size_t blank = strspn(text, " \t\r\n"), length = strcspn(text + blank, " \t\r\n");
        if (length && (n == 3 || length >= NAME_BYTES))
            return false;
        if (length)
            memcpy(words[n++], text + blank, length);
        text += blank + length;
    }
    if (n != 1 && (n != 3 || sqlite3_stricmp(words[1], "PARTITIONED") != 0))
        return false;
    memcpy(ret->name, words[0], NAME_BYTES);
    memcpy(ret->partition, words[2], NAME_BYTES);
    return true;
}

static void side_sql_make(struct side *side, const char *columns)
{
    sqlite3_str *sql = sqlite3_str_new(NULL);
    if (*side->partition)
        sqlite3_str_appendf(sql, "SELECT \"%w\", ts, ", side->partition);
    else
        sqlite3_str_appendall(sql, "SELECT 0, ts, ");
    sqlite3_str_appendf(sql, "%s%s FROM \"%w\" WHERE ts IS NOT NULL", side->has_dur ? "dur" : "0",
                        columns, side->name);
    if (side->has_dur)
        sqlite3_str_appendall(sql, " AND dur >= -1");
    if (*side->partition)
        sqlite3_str_appendf(sql, " AND \"%w\" IS NOT NULL", side->partition);
    side->sql = sqlite3_str_finish(sql);
}

// Adds the side's own columns to the declaration, and makes its statement.
static int side_describe(sqlite3 *handle, struct side *side, sqlite3_str *declared,
                         char **ret_error)
{
    sqlite3_stmt *statement = NULL;
    char *probe = sqlite3_mprintf("SELECT * FROM \"%w\"", side->name);
    int code = probe ? sqlite3_prepare_v2(handle, probe, -1, &statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(probe);
    if (code != SQLITE_OK) {
        *ret_error = sqlite3_mprintf("SPAN_JOIN: %s", sqlite3_errmsg(handle));
        return code;
    }
    sqlite3_str *columns = sqlite3_str_new(handle);
    bool has_ts = false, has_partition = !*side->partition;
    for (int i = 0; i < sqlite3_column_count(statement) && i < COLUMNS_MAX; i++) {
        const char *column = sqlite3_column_name(statement, i);
        bool is_ts = sqlite3_stricmp(column, "ts") == 0,
             is_dur = sqlite3_stricmp(column, "dur") == 0;
        bool is_partition = sqlite3_stricmp(column, side->partition) == 0;
        has_ts |= is_ts;
        side->has_dur |= is_dur;
        has_partition |= is_partition;
        if (is_ts || is_dur || is_partition)
            continue;
        sqlite3_str_appendf(columns, ", \"%w\"", column);
        sqlite3_str_appendf(declared, ", \"%w\"", column);
        side->n_columns++;
    }
    sqlite3_finalize(statement);
    char *own = sqlite3_str_finish(columns);
    if (has_ts && has_partition) {
        side_sql_make(side, own ? own : "");
        sqlite3_free(own);
        return side->sql ? SQLITE_OK : SQLITE_NOMEM;
    }
    sqlite3_free(own);
    *ret_error = sqlite3_mprintf("SPAN_JOIN: %s has no column %s", side->name,
                                 !has_ts ? "ts" : side->partition);
    return SQLITE_ERROR;
}

static int span_disconnect(sqlite3_vtab *base)
{
    struct span_table *table = (struct span_table *)base;
    sqlite3_free(table->sides[0].sql);
    sqlite3_free(table->sides[1].sql);
    sqlite3_free(table);
    return SQLITE_OK;
}

static int span_declare(sqlite3 *handle, struct span_table *table, char **ret_error)
{
    sqlite3_str *declared = sqlite3_str_new(handle);
    sqlite3_str_appendall(declared, "CREATE TABLE x(ts, dur");
    if (table->partitioned)
        sqlite3_str_appendf(declared, ", \"%w\"", table->sides[table->whole == 0].partition);
    int code = side_describe(handle, &table->sides[0], declared, ret_error);
    if (code == SQLITE_OK)
        code = side_describe(handle, &table->sides[1], declared, ret_error);
    if (code == SQLITE_OK && !table->sides[0].has_dur && !table->sides[1].has_dur) {
        *ret_error = sqlite3_mprintf("SPAN_JOIN: neither %s nor %s has a column dur",
                                     table->sides[0].name, table->sides[1].name);
        code = SQLITE_ERROR;
    }
    sqlite3_str_appendall(declared, ")");
    char *sql = sqlite3_str_finish(declared);
    if (code == SQLITE_OK)
        code = sql ? sqlite3_declare_vtab(handle, sql) : SQLITE_NOMEM;
    if (code == SQLITE_ERROR && !*ret_error)
        *ret_error = sqlite3_mprintf("SPAN_JOIN: both tables have a column of the same name: %s",
                                     sqlite3_errmsg(handle));
    sqlite3_free(sql);
    return code;
}

static int span_connect(sqlite3 *handle, void *userdata, int argc, const char *const *argv,
                        sqlite3_vtab **ret, char **ret_error)
{
    struct span_table *table = sqlite3_malloc(sizeof(*table));
    if (!table)
        return SQLITE_NOMEM;
    *table = (struct span_table){.handle = handle, .kind = (enum kind)(uintptr_t)userdata};
    const char *first = table->sides[0].partition, *second = table->sides[1].partition;
    if (argc != 5 || !side_parse(argv[3], &table->sides[0]) ||
        !side_parse(argv[4], &table->sides[1]) ||
        (*first && *second && sqlite3_stricmp(first, second) != 0)) {
        *ret_error =
            sqlite3_mprintf("SPAN_JOIN: expected (a PARTITIONED column, b PARTITIONED column) with "
                            "the same column twice, (a PARTITIONED column, b), or (a, b)");
        sqlite3_free(table);
        return SQLITE_ERROR;
    }
    table->partitioned = *first || *second;
    table->whole = !*first == !*second ? -1 : *first ? 1 : 0;
    int code = span_declare(handle, table, ret_error);
    if (code != SQLITE_OK) {
        span_disconnect(&table->base);
        return code;
    }
    *ret = &table->base;
    return SQLITE_OK;
}

// Lets a query read a single partition, because the pieces of a partition do not depend on others.
static int span_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    info->estimatedCost = 1e6;
    if (!((const struct span_table *)base)->partitioned)
        return SQLITE_OK;
    for (int i = 0; i < info->nConstraint && !info->idxNum; i++)
        if (info->aConstraint[i].usable && info->aConstraint[i].iColumn == COLUMN_PARTITION &&
            info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ) {
            info->aConstraintUsage[i].argvIndex = info->idxNum = 1;
            info->estimatedCost = 1e4;
            info->estimatedRows = 100;
        }
    return SQLITE_OK;
}

static int span_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
    (void)base;
    struct span_cursor *cursor = sqlite3_malloc(sizeof(*cursor));
    if (!cursor)
        return SQLITE_NOMEM;
    *cursor = (struct span_cursor){0};
    *ret = &cursor->base;
    return SQLITE_OK;
}

static int span_close(sqlite3_vtab_cursor *base)
{
    struct span_cursor *cursor = (struct span_cursor *)base;
    sqlite3_finalize(cursor->streams[0].statement);
    sqlite3_finalize(cursor->streams[1].statement);
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int stream_step(struct span_cursor *cursor, struct stream *stream)
{
    int code = sqlite3_step(stream->statement);
    stream->at_end = code != SQLITE_ROW;
    if (code == SQLITE_ROW && sqlite3_column_type(stream->statement, 0) != SQLITE_INTEGER) {
        cursor->base.pVtab->zErrMsg =
            sqlite3_mprintf("SPAN_JOIN: partitions are whole numbers; one is '%s'",
                            sqlite3_column_text(stream->statement, 0));
        return SQLITE_ERROR;
    }
    if (code == SQLITE_ROW) {
        int64_t dur = sqlite3_column_int64(stream->statement, 2);
        stream->ts = sqlite3_column_int64(stream->statement, 1);
        stream->endless = dur < 0;
        if (stream->endless)
            stream->end = stream->ts;
        else
            stream->end =
                dur > INT64_MAX - (stream->ts > 0 ? stream->ts : 0) ? INT64_MAX : stream->ts + dur;
        return SQLITE_OK;
    }
    if (code == SQLITE_DONE)
        return SQLITE_OK;
    sqlite3 *handle = ((struct span_table *)cursor->base.pVtab)->handle;
    cursor->base.pVtab->zErrMsg = sqlite3_mprintf("%s", sqlite3_errmsg(handle));
    return code;
}

static int64_t partition_of(const struct span_cursor *cursor, int side)
{
    if (((const struct span_table *)cursor->base.pVtab)->whole == side)
        return cursor->partition;
    return sqlite3_column_int64(cursor->streams[side].statement, 0);
}

// Returns a negative number if the first side's partition comes first. A side at its end comes
// last.
static int partitions_compare(const struct span_cursor *cursor)
{
    const struct stream *a = &cursor->streams[0], *b = &cursor->streams[1];
    if (a->at_end || b->at_end)
        return a->at_end - b->at_end;
    int64_t first = partition_of(cursor, 0), second = partition_of(cursor, 1);
    return first < second ? -1 : first > second;
}

// Consumes the row of a side up to `end`, and steps to the next row if nothing is left.
static int stream_consume(struct span_cursor *cursor, int side, int64_t end)
{
    struct stream *stream = &cursor->streams[side];
    stream->ts = end;
    return stream->ts >= stream->end ? stream_step(cursor, stream) : SQLITE_OK;
}

// Finds the next piece without consuming it. Returns true if the piece has both sides; otherwise
// *ret_alone is its only side.
static bool piece_find(struct span_cursor *cursor, int *ret_alone)
{
    const struct stream *a = &cursor->streams[0], *b = &cursor->streams[1];
    int order = partitions_compare(cursor);
    *ret_alone = -1;
    if (order == 0 && a->ts == b->ts) {
        cursor->has[0] = cursor->has[1] = true;
        cursor->ts = a->ts;
        cursor->end = a->end < b->end ? a->end : b->end;
        return true;
    }
    // One side begins first: it is alone up to the other side's start, or to its own end.
    int side = order < 0 || (order == 0 && a->ts < b->ts) ? 0 : 1;
    const struct stream *alone = &cursor->streams[side], *other = &cursor->streams[!side];
    cursor->has[side] = true;
    cursor->has[!side] = false;
    cursor->ts = alone->ts;
    cursor->end =
        order == 0 && other->ts < alone->end && other->ts > alone->ts ? other->ts : alone->end;
    *ret_alone = side;
    return false;
}

static bool comes_alone(const struct span_table *table, int side)
{
    return table->kind == KIND_OUTER || (table->kind == KIND_LEFT && side == 0);
}

// Begins the next partition for a side that counts in each partition, when the current partition is
// complete.
static int partition_go_on(struct span_cursor *cursor, int whole)
{
    const struct span_table *table = (const struct span_table *)cursor->base.pVtab;
    struct stream *stream = &cursor->streams[whole];
    const struct stream *other = &cursor->streams[!whole];
    if (other->at_end) {
        stream->at_end |= !comes_alone(table, whole) || !cursor->any_partition;
        return SQLITE_OK;
    }
    int64_t partition = partition_of(cursor, !whole);
    if (cursor->any_partition && partition == cursor->partition)
        return SQLITE_OK;
    if (cursor->any_partition && comes_alone(table, whole) && !stream->at_end)
        return SQLITE_OK;
    bool is_first = !cursor->any_partition;
    cursor->any_partition = true;
    cursor->partition = partition;
    if (is_first)
        return SQLITE_OK;
    sqlite3_reset(stream->statement);
    return stream_step(cursor, stream);
}

static int span_advance(struct span_cursor *cursor)
{
    const struct span_table *table = (const struct span_table *)cursor->base.pVtab;
    for (;;) {
        int alone, code = table->whole < 0 ? SQLITE_OK : partition_go_on(cursor, table->whole);
        cursor->at_end = cursor->streams[0].at_end && cursor->streams[1].at_end;
        if (cursor->at_end || code != SQLITE_OK)
            return code;
        if (piece_find(cursor, &alone) || comes_alone(table, alone))
            return SQLITE_OK;
        code = stream_consume(cursor, alone, cursor->end);
        if (code != SQLITE_OK)
            return code;
    }
}

static int span_next(sqlite3_vtab_cursor *base)
{
    struct span_cursor *cursor = (struct span_cursor *)base;
    int code = SQLITE_OK;
    bool has[2] = {cursor->has[0], cursor->has[1]};
    cursor->row++;
    for (int side = 0; side < 2 && code == SQLITE_OK; side++)
        if (has[side])
            code = stream_consume(cursor, side, cursor->end);
    return code == SQLITE_OK ? span_advance(cursor) : code;
}

// Prepares the sorted statement of a side, for one partition or for all.
static int stream_prepare(const struct span_table *table, int side, bool of_one,
                          struct stream *stream)
{
    const char *partition = table->sides[side].partition;
    if (stream->statement && stream->of_one == of_one)
        return sqlite3_reset(stream->statement);
    sqlite3_finalize(stream->statement);
    stream->statement = NULL;
    stream->of_one = of_one;
    char *sql = of_one ? sqlite3_mprintf("%s AND \"%w\" = ?1 ORDER BY 1, 2", table->sides[side].sql,
                                         partition)
                       : sqlite3_mprintf("%s ORDER BY 1, 2", table->sides[side].sql);
    int code =
        sql ? sqlite3_prepare_v2(table->handle, sql, -1, &stream->statement, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return code;
}

static int span_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                       sqlite3_value **argv)
{
    (void)text;
    struct span_cursor *cursor = (struct span_cursor *)base;
    const struct span_table *table = (const struct span_table *)base->pVtab;
    int code = SQLITE_OK;
    for (int side = 0; side < 2 && code == SQLITE_OK; side++) {
        struct stream *stream = &cursor->streams[side];
        // Without rows of the first table, the second table need not be sorted.
        if (side == 1 && cursor->streams[0].at_end && !comes_alone(table, 1)) {
            stream->at_end = true;
            break;
        }
        bool of_one = number && argc && table->whole != side;
        code = stream_prepare(table, side, of_one, stream);
        if (code == SQLITE_OK && of_one)
            code = sqlite3_bind_value(stream->statement, 1, argv[0]);
        if (code == SQLITE_OK)
            code = stream_step(cursor, stream);
        else
            base->pVtab->zErrMsg = sqlite3_mprintf("%s", sqlite3_errmsg(table->handle));
    }
    cursor->row = 0;
    cursor->any_partition = false;
    return code == SQLITE_OK ? span_advance(cursor) : code;
}

static int span_eof(sqlite3_vtab_cursor *base)
{
    return ((struct span_cursor *)base)->at_end;
}

static void partition_result(const struct span_cursor *cursor, sqlite3_context *context)
{
    if (((const struct span_table *)cursor->base.pVtab)->whole >= 0)
        sqlite3_result_int64(context, cursor->partition);
    else
        sqlite3_result_value(context,
                             sqlite3_column_value(cursor->streams[!cursor->has[0]].statement, 0));
}

static int64_t piece_dur(const struct span_cursor *cursor)
{
    for (int side = 0; side < 2; side++)
        if (cursor->has[side] && cursor->streams[side].endless)
            return -1;
    return cursor->end - cursor->ts;
}

static int span_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct span_cursor *cursor = (const struct span_cursor *)base;
    const struct span_table *table = (const struct span_table *)base->pVtab;
    int first = 2 + table->partitioned, n_left = table->sides[0].n_columns;
    if (column == 0) {
        sqlite3_result_int64(context, cursor->ts);
    } else if (column == 1) {
        sqlite3_result_int64(context, piece_dur(cursor));
    } else if (column < first) {
        partition_result(cursor, context);
    } else {
        int side = column - first >= n_left;
        if (cursor->has[side])
            sqlite3_result_value(context,
                                 sqlite3_column_value(cursor->streams[side].statement,
                                                      3 + column - first - (side ? n_left : 0)));
    }
    return SQLITE_OK;
}

static int span_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
    *ret = ((struct span_cursor *)base)->row;
    return SQLITE_OK;
}

static const sqlite3_module module = {
    .xCreate = span_connect,
    .xConnect = span_connect,
    .xBestIndex = span_best_index,
    .xDisconnect = span_disconnect,
    .xDestroy = span_disconnect,
    .xOpen = span_open,
    .xClose = span_close,
    .xFilter = span_filter,
    .xNext = span_next,
    .xEof = span_eof,
    .xColumn = span_column,
    .xRowid = span_rowid,
};

int span_join_register(sqlite3 *handle)
{
    static const char *const names[] = {"span_join", "span_left_join", "span_outer_join"};
    int code = SQLITE_OK;
    for (int i = 0; i < 3 && code == SQLITE_OK; i++)
        code = sqlite3_create_module_v2(handle, names[i], &module, (void *)(uintptr_t)i, NULL);
    return code;
}
