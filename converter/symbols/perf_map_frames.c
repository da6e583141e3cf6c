// SPDX-License-Identifier: Apache-2.0
//
// A frame belongs to no process: equal frames of several are one row, and code that was made at run
// time may be another function in each. So the answer is a table of process, frame and symbol, and
// the frame's own name is filled in only where there is no doubt.
//
// A frame takes a name only if its mapping, which was recorded with the sample, is no file: a page
// that held such code before or after a file was mapped there is never confused with it.
//
// Symbols overlap, since runtimes move and replace code. Going up in addresses, a heap holds the
// symbols that began and may still cover the address; the one that stands last in the maps wins.
#include "converter/symbols/perf_map_frames.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/vec.h"
#include "converter/tables/rows.h"

struct live {
    int64_t id;
    uint64_t end;
};
VEC_DEFINE(live_vec, struct live);

struct lookup {
    sqlite3_stmt *frames;  // by address
    sqlite3_stmt *symbols; // by address
    bool has_symbol;
    struct live_vec heap; // the largest id on top
    struct rows rows;
};

// Frames in memory that no file backs (mappings without a path are named "/", others "/[anon:x]"),
// with the process that ran into them and when.
static const char frames_sql[] =
    "UPDATE perf_map SET upid = (SELECT max(p.upid) FROM process p WHERE p.pid = perf_map.pid) "
    "WHERE upid IS NULL;"
    "DELETE FROM perf_map_frame;"
    "CREATE TEMP TABLE jit_frame AS "
    "WITH RECURSIVE "
    "mapped(upid) AS (SELECT DISTINCT upid FROM perf_map WHERE upid IS NOT NULL),"
    "used(upid, callsite_id, first_ts, last_ts) AS ("
    "SELECT upid, callsite_id, min(ts), max(ts) FROM heap_profile_allocation "
    "WHERE upid IN mapped GROUP BY 1, 2 UNION ALL "
    "SELECT t.upid, s.callsite_id, min(s.ts), max(s.ts) FROM perf_sample s JOIN thread t "
    "USING (utid) WHERE t.upid IN mapped AND s.callsite_id IS NOT NULL GROUP BY 1, 2),"
    "up(upid, callsite_id, first_ts, last_ts) AS (SELECT * FROM used UNION ALL "
    "SELECT u.upid, c.parent_id, u.first_ts, u.last_ts FROM up u "
    "JOIN stack_profile_callsite c ON c.id = u.callsite_id WHERE c.parent_id IS NOT NULL)"
    "SELECT up.upid, f.id AS frame_id, "
    "CASE WHEN m.start + f.rel_pc < m.end THEN m.start + f.rel_pc ELSE f.rel_pc END AS pc, "
    "min(up.first_ts) AS first_ts, max(up.last_ts) AS last_ts "
    "FROM up JOIN stack_profile_callsite c ON c.id = up.callsite_id "
    "JOIN stack_profile_frame f ON f.id = c.frame_id "
    "JOIN stack_profile_mapping m ON m.id = f.mapping "
    "WHERE coalesce(m.name, '') NOT GLOB '/*' OR m.name GLOB '//anon*' OR m.name GLOB '/memfd:*' "
    "OR m.name GLOB '/dev/zero*' OR m.name GLOB '/dev/ashmem*' OR m.name GLOB '/anon_hugepage*' "
    "OR m.name GLOB '/SYSV*' OR m.name = '/' OR m.name GLOB '/[[]*' "
    "GROUP BY 1, 2;";

static const char names_sql[] =
    "CREATE TEMP TABLE jit_name AS SELECT j.frame_id, min(s.name) AS name "
    "FROM jit_frame j LEFT JOIN perf_map_frame p ON p.upid = j.upid AND p.frame_id = j.frame_id "
    "LEFT JOIN perf_map_symbol s ON s.id = p.symbol_id "
    "GROUP BY 1 HAVING count(s.name) = count(*) AND min(s.name) = max(s.name);"
    "CREATE UNIQUE INDEX temp.jit_name_by_frame ON jit_name(frame_id);"
    "UPDATE stack_profile_frame SET name = (SELECT n.name FROM jit_name n WHERE n.frame_id = "
    "stack_profile_frame.id) WHERE coalesce(name, '') = '' AND id IN "
    "(SELECT frame_id FROM jit_name);"
    "DROP TABLE jit_name; DROP TABLE jit_frame;";

static int heap_push(struct live_vec *heap, struct live live)
{
    int r = live_vec_push(heap, live);
    for (size_t i = heap->n - 1; r == 0 && i; i = (i - 1) / 2) {
        struct live *parent = &heap->items[(i - 1) / 2], *child = &heap->items[i];
        if (parent->id >= child->id)
            break;
        struct live swapped = *parent;
        *parent = *child;
        *child = swapped;
    }
    return r;
}

static void heap_pop(struct live_vec *heap)
{
    heap->items[0] = heap->items[--heap->n];
    for (size_t i = 0;;) {
        size_t largest = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < heap->n; child++)
            if (heap->items[child].id > heap->items[largest].id)
                largest = child;
        if (largest == i)
            return;
        struct live swapped = heap->items[i];
        heap->items[i] = heap->items[largest];
        heap->items[largest] = swapped;
        i = largest;
    }
}

// The last symbol that covers `pc`, or -1. Addresses come in ascending order.
static int symbol_at(struct lookup *lookup, int64_t pc, int64_t *ret)
{
    while (lookup->has_symbol && sqlite3_column_int64(lookup->symbols, 1) <= pc) {
        uint64_t start = (uint64_t)sqlite3_column_int64(lookup->symbols, 1);
        uint64_t size = (uint64_t)sqlite3_column_int64(lookup->symbols, 2);
        struct live live = {sqlite3_column_int64(lookup->symbols, 0), start + size};
        if (live.end > (uint64_t)pc && heap_push(&lookup->heap, live) < 0)
            return -ENOMEM;
        lookup->has_symbol = sqlite3_step(lookup->symbols) == SQLITE_ROW;
    }
    while (lookup->heap.n && lookup->heap.items[0].end <= (uint64_t)pc)
        heap_pop(&lookup->heap);
    *ret = lookup->heap.n ? lookup->heap.items[0].id : -1;
    return 0;
}

static int process_lookup(struct lookup *lookup, int64_t upid, struct err *err)
{
    int r = 0;
    sqlite3_bind_int64(lookup->frames, 1, upid);
    sqlite3_bind_int64(lookup->symbols, 1, upid);
    lookup->heap.n = 0;
    lookup->has_symbol = sqlite3_step(lookup->symbols) == SQLITE_ROW;
    while (r == 0 && sqlite3_step(lookup->frames) == SQLITE_ROW) {
        int64_t symbol;
        r = symbol_at(lookup, sqlite3_column_int64(lookup->frames, 1), &symbol);
        if (r < 0 || symbol < 0)
            continue;
        rows_int(&lookup->rows, COL_perf_map_frame_upid, upid);
        rows_int(&lookup->rows, COL_perf_map_frame_frame_id,
                 sqlite3_column_int64(lookup->frames, 0));
        rows_int(&lookup->rows, COL_perf_map_frame_symbol_id, symbol);
        rows_int(&lookup->rows, COL_perf_map_frame_first_ts,
                 sqlite3_column_int64(lookup->frames, 2));
        rows_int(&lookup->rows, COL_perf_map_frame_last_ts,
                 sqlite3_column_int64(lookup->frames, 3));
        rows_put(&lookup->rows);
        r = rows_error(&lookup->rows, err);
    }
    sqlite3_reset(lookup->frames);
    sqlite3_reset(lookup->symbols);
    return r;
}

static int lookup_open(struct lookup *lookup, sqlite3 *handle, struct err *err)
{
    int code = sqlite3_prepare_v2(handle,
                                  "SELECT frame_id, pc, first_ts, last_ts FROM temp.jit_frame "
                                  "WHERE upid = ? ORDER BY pc",
                                  -1, &lookup->frames, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(handle,
                                  "SELECT s.id, s.start, s.size FROM perf_map_symbol s "
                                  "JOIN perf_map m ON m.id = s.perf_map_id WHERE m.upid = ? "
                                  "AND s.start >= 0 ORDER BY s.start",
                                  -1, &lookup->symbols, NULL);
    if (code != SQLITE_OK)
        return err_set(err, -EIO, "perf maps: %s", sqlite3_errmsg(handle));
    return rows_open(&lookup->rows, handle, TABLE_perf_map_frame, err);
}

static void lookup_close(struct lookup *lookup)
{
    sqlite3_finalize(lookup->frames);
    sqlite3_finalize(lookup->symbols);
    live_vec_done(&lookup->heap);
    rows_close(&lookup->rows);
}

static int frames_lookup(sqlite3 *handle, struct err *err)
{
    CLEANUP(lookup_close) struct lookup lookup = {0};
    sqlite3_stmt *processes = NULL;
    int r = lookup_open(&lookup, handle, err);
    if (r == 0 && sqlite3_prepare_v2(handle, "SELECT DISTINCT upid FROM temp.jit_frame", -1,
                                     &processes, NULL) != SQLITE_OK)
        r = err_set(err, -EIO, "perf maps: %s", sqlite3_errmsg(handle));
    while (r == 0 && sqlite3_step(processes) == SQLITE_ROW)
        r = process_lookup(&lookup, sqlite3_column_int64(processes, 0), err);
    sqlite3_finalize(processes);
    return r;
}

int perf_map_frames_name(struct sqlite3 *handle, struct err *err)
{
    if (!sql_number(handle, "SELECT count(*) FROM perf_map", 0))
        return 0;
    int r = sql_run(handle, frames_sql, "perf maps", err);
    if (r == 0)
        r = frames_lookup(handle, err);
    return r < 0 ? r : sql_run(handle, names_sql, "perf maps", err);
}
