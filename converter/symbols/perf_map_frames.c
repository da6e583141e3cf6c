// SPDX-License-Identifier: Apache-2.0
//
// A frame belongs to no process: equal frames of several processes are one row. Code that was made
// at run time may be a different function in each process and at each time. The result is therefore
// a table of process, frame, times and symbol. The frame's own name is set only if all processes
// and times agree.
//
// A frame gets a name only if its mapping, which was recorded with the sample, is not a file. Code
// made at run time is thus never confused with a file that was mapped at the same address earlier
// or later.
//
// If several symbols cover an address, the last symbol before the sample counts, unless its code
// was freed before the sample. Without times, the symbol that stands last in the map counts.
// Samples before the first symbol take the first symbol, because runtimes report code a little late
// and maps are read from time to time. The samples in a dump of a heap profile are from any time
// since the previous dump.
//
// Most places have one symbol for all their samples. Only the other places are looked up sample by
// sample.
#include "converter/symbols/perf_map_frames.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/memory.h"
#include "common/vec.h"
#include "converter/symbols/code_cover.h"
#include "converter/tables/rows.h"

#define LONG_AGO INT64_MIN

struct code {
    int64_t id; // of the symbol
    uint64_t start, end;
    int64_t made_ts, gone_ts; // LONG_AGO, INT64_MAX: not known
};
VEC_DEFINE(code_vec, struct code);

// A frame in one process. Samples are looked up in the order of time.
struct place {
    int64_t frame_id;
    int64_t first_ts, last_ts;  // of the samples
    int64_t last_from;          // begin of the time range of the last sample
    uint32_t earliest;          // index of the first code; CODE_NONE: never any code
    uint32_t current;           // index of the current code; CODE_NONE: none
    int64_t held_from, held_to; // times of the samples of `current`
};
VEC_DEFINE(place_vec, struct place);
VEC_DEFINE(address_vec, uint64_t);
VEC_DEFINE(number_vec, uint32_t);

struct lookup {
    sqlite3 *handle; // borrowed
    sqlite3_stmt *frames, *symbols, *samples, *doubt, *nameless;
    struct place_vec places;      // of one process, sorted by address
    struct address_vec addresses; // of the places
    struct code_vec codes;        // that cover a place, in the order in which the codes were made
    struct code_cover cover;
    struct rows rows;
};

// Sets the times at which code was made and freed. The n-th time that code was made with an address
// and a size is the n-th line of the map with both.
static const char times_sql[] =
    "CREATE TEMP TABLE jit_made AS SELECT rowid AS id, perf_map_id, start, size, ts, "
    "row_number() OVER (PARTITION BY perf_map_id, start, size ORDER BY rowid) AS nth, "
    // Further code at the same address does not end the old code, because a runtime may report a
    // part of the old code.
    "lead(iif(size IS NULL, ts, NULL)) OVER (PARTITION BY perf_map_id, start ORDER BY rowid) AS "
    "gone_ts "
    "FROM perf_map_code;"
    "DELETE FROM temp.jit_made WHERE size IS NULL;"
    "CREATE UNIQUE INDEX temp.jit_made_nth ON jit_made(perf_map_id, start, size, nth);"
    "UPDATE perf_map_symbol SET first_ts = made.ts, last_ts = made.gone_ts FROM ("
    "SELECT s.id, m.ts, m.gone_ts FROM (SELECT id, perf_map_id, start, size, row_number() OVER "
    "(PARTITION BY perf_map_id, start, size ORDER BY id) AS nth FROM perf_map_symbol "
    "WHERE perf_map_id IN (SELECT perf_map_id FROM perf_map_code)) s "
    "JOIN temp.jit_made m USING (perf_map_id, start, size, nth)) made "
    "WHERE made.id = perf_map_symbol.id;"
    "DROP TABLE temp.jit_made;";

// Finds the frames in memory without a file (mappings without a path are named "/", others
// "/[anon:x]"), with the processes that ran into the frames, and when.
static const char frames_sql[] =
    "UPDATE perf_map SET upid = (SELECT max(p.upid) FROM process p WHERE p.pid = perf_map.pid) "
    "WHERE upid IS NULL;"
    "DELETE FROM perf_map_frame;"
    "CREATE TEMP TABLE jit_sample AS "
    "WITH mapped(upid) AS (SELECT DISTINCT upid FROM perf_map WHERE upid IS NOT NULL),"
    "dump AS (SELECT upid, ts, lag(ts) OVER (PARTITION BY upid ORDER BY ts) AS from_ts FROM "
    "(SELECT DISTINCT upid, ts FROM heap_profile_allocation WHERE upid IN mapped))"
    "SELECT upid, h.callsite_id, d.from_ts, ts FROM heap_profile_allocation h "
    "JOIN dump d USING (upid, ts) WHERE h.count > 0 OR h.size > 0 GROUP BY 1, 2, 4 UNION ALL "
    "SELECT coalesce(t.upid, c.upid), s.callsite_id, s.ts, s.ts FROM _profiler_sample s "
    "LEFT JOIN thread t USING (utid) LEFT JOIN _profiler_task_context c "
    "ON c.id = s.task_context_id "
    "WHERE coalesce(t.upid, c.upid) IN mapped AND s.callsite_id IS NOT NULL;"
    "CREATE INDEX temp.jit_sample_by_callsite ON jit_sample(upid, callsite_id);"
    "CREATE TEMP TABLE jit_frame AS "
    "WITH RECURSIVE "
    "up(upid, callsite_id, first_ts, last_ts, last_from) AS ("
    "SELECT upid, callsite_id, min(ts), max(ts), max(from_ts) FROM temp.jit_sample GROUP BY 1, 2 "
    "UNION ALL SELECT u.upid, c.parent_id, u.first_ts, u.last_ts, u.last_from FROM up u "
    "JOIN stack_profile_callsite c ON c.id = u.callsite_id WHERE c.parent_id IS NOT NULL)"
    "SELECT up.upid, f.id AS frame_id, "
    "CASE WHEN m.start + f.rel_pc < m.end THEN m.start + f.rel_pc ELSE f.rel_pc END AS pc, "
    "min(up.first_ts) AS first_ts, max(up.last_ts) AS last_ts, max(up.last_from) AS last_from "
    "FROM up JOIN stack_profile_callsite c ON c.id = up.callsite_id "
    "JOIN stack_profile_frame f ON f.id = c.frame_id "
    "JOIN stack_profile_mapping m ON m.id = f.mapping "
    "WHERE coalesce(m.name, '') NOT GLOB '/*' OR m.name GLOB '//anon*' OR m.name GLOB '/memfd:*' "
    "OR m.name GLOB '/dev/zero*' OR m.name GLOB '/dev/ashmem*' OR m.name GLOB '/anon_hugepage*' "
    "OR m.name GLOB '/SYSV*' OR m.name = '/' OR m.name GLOB '/[[]*' "
    "GROUP BY 1, 2;"
    "CREATE TEMP TABLE jit_doubt(frame_id INTEGER PRIMARY KEY, place);"
    "CREATE TEMP TABLE jit_nameless(frame_id INTEGER PRIMARY KEY, place);";

static const char samples_sql[] =
    "WITH RECURSIVE up(leaf, callsite_id) AS ("
    "SELECT DISTINCT callsite_id, callsite_id FROM temp.jit_sample WHERE upid = ?1 UNION ALL "
    "SELECT u.leaf, c.parent_id FROM up u JOIN stack_profile_callsite c ON c.id = u.callsite_id "
    "WHERE c.parent_id IS NOT NULL),"
    "chain AS (SELECT DISTINCT u.leaf, d.place FROM up u "
    "JOIN stack_profile_callsite c ON c.id = u.callsite_id "
    "JOIN temp.jit_doubt d ON d.frame_id = c.frame_id)"
    "SELECT DISTINCT c.place, s.ts, s.from_ts FROM chain c JOIN temp.jit_sample s "
    "ON s.upid = ?1 AND s.callsite_id = c.leaf ORDER BY s.ts";

static const char names_sql[] =
    "CREATE TEMP TABLE jit_name AS SELECT j.frame_id, min(s.name) AS name "
    "FROM jit_frame j LEFT JOIN perf_map_frame p ON p.upid = j.upid AND p.frame_id = j.frame_id "
    "LEFT JOIN perf_map_symbol s ON s.id = p.symbol_id "
    "WHERE j.frame_id NOT IN (SELECT frame_id FROM temp.jit_nameless) "
    "GROUP BY 1 HAVING count(s.name) = count(*) AND min(s.name) = max(s.name);"
    "CREATE UNIQUE INDEX temp.jit_name_by_frame ON jit_name(frame_id);"
    "UPDATE stack_profile_frame SET name = (SELECT n.name FROM jit_name n WHERE n.frame_id = "
    "stack_profile_frame.id) WHERE coalesce(name, '') = '' AND id IN "
    "(SELECT frame_id FROM jit_name);"
    "DROP TABLE jit_name; DROP TABLE jit_frame; DROP TABLE jit_sample; DROP TABLE jit_doubt; "
    "DROP TABLE jit_nameless;";

static int64_t column_or(sqlite3_stmt *statement, int column, int64_t otherwise)
{
    return sqlite3_column_type(statement, column) == SQLITE_NULL
               ? otherwise
               : sqlite3_column_int64(statement, column);
}

static int places_read(struct lookup *lookup, int64_t upid)
{
    int r = 0;
    place_vec_clear(&lookup->places);
    address_vec_clear(&lookup->addresses);
    sqlite3_bind_int64(lookup->frames, 1, upid);
    while (r == 0 && sqlite3_step(lookup->frames) == SQLITE_ROW) {
        struct place place = {
            .frame_id = sqlite3_column_int64(lookup->frames, 0),
            .first_ts = sqlite3_column_int64(lookup->frames, 2),
            .last_ts = sqlite3_column_int64(lookup->frames, 3),
            .last_from = column_or(lookup->frames, 4, LONG_AGO),
            .current = CODE_NONE,
        };
        r = place_vec_push(&lookup->places, place);
        if (r == 0)
            r = address_vec_push(&lookup->addresses,
                                 (uint64_t)sqlite3_column_int64(lookup->frames, 1));
    }
    if (sqlite3_reset(lookup->frames) != SQLITE_OK && r == 0)
        r = -EIO;
    return r;
}

// Reads the symbols that cover a place.
static int codes_read(struct lookup *lookup, int64_t upid)
{
    code_vec_clear(&lookup->codes);
    code_cover_done(&lookup->cover);
    int r = code_cover_init(&lookup->cover, lookup->addresses.items, lookup->addresses.n);
    sqlite3_bind_int64(lookup->symbols, 1, upid);
    while (r == 0 && sqlite3_step(lookup->symbols) == SQLITE_ROW) {
        struct code code = {
            .id = sqlite3_column_int64(lookup->symbols, 0),
            .start = (uint64_t)sqlite3_column_int64(lookup->symbols, 1),
            .made_ts = column_or(lookup->symbols, 3, LONG_AGO),
            .gone_ts = column_or(lookup->symbols, 4, INT64_MAX),
        };
        code.end = code.start + (uint64_t)sqlite3_column_int64(lookup->symbols, 2);
        if (lookup->codes.n < CODE_NONE &&
            code_cover_put(&lookup->cover, code.start, code.end, (uint32_t)lookup->codes.n))
            r = code_vec_push(&lookup->codes, code);
    }
    if (sqlite3_reset(lookup->symbols) != SQLITE_OK && r == 0)
        r = -EIO;
    return r;
}

static void name_put(struct lookup *lookup, int64_t upid, const struct place *place)
{
    if (place->current == CODE_NONE)
        return;
    rows_int(&lookup->rows, COL_perf_map_frame_upid, upid);
    rows_int(&lookup->rows, COL_perf_map_frame_frame_id, place->frame_id);
    rows_int(&lookup->rows, COL_perf_map_frame_symbol_id, lookup->codes.items[place->current].id);
    rows_int(&lookup->rows, COL_perf_map_frame_first_ts, place->held_from);
    rows_int(&lookup->rows, COL_perf_map_frame_last_ts, place->held_to);
    rows_put(&lookup->rows);
}

static void frame_mark(sqlite3_stmt *insert, int64_t frame_id, size_t place)
{
    sqlite3_bind_int64(insert, 1, frame_id);
    sqlite3_bind_int64(insert, 2, (int64_t)place);
    sqlite3_step(insert);
    if (sqlite3_reset(insert) == SQLITE_NOMEM)
        memory_refused();
}

// Finds the code for samples before the first symbol. The last of several symbols
// of one time counts.
static int earliest_find(struct lookup *lookup)
{
    CLEANUP(code_cover_done) struct code_cover cover = {0};
    CLEANUP(number_vec_done) struct number_vec numbers = {0};
    int r = code_cover_init(&cover, lookup->addresses.items, lookup->addresses.n);
    for (size_t end = lookup->codes.n, i; r == 0 && end; end = i) {
        const struct code *codes = lookup->codes.items;
        for (i = end - 1; i && codes[i - 1].made_ts == codes[end - 1].made_ts; i--)
            continue;
        for (size_t k = i; r == 0 && k < end; k++) {
            code_cover_put(&cover, codes[k].start, codes[k].end, (uint32_t)numbers.n);
            r = number_vec_push(&numbers, (uint32_t)k);
        }
    }
    for (size_t i = 0; r == 0 && i < lookup->places.n; i++) {
        uint32_t at = code_cover_at(&cover, i);
        lookup->places.items[i].earliest = at == CODE_NONE ? CODE_NONE : numbers.items[at];
    }
    return r;
}

// Writes the places that one symbol covers all the time. Returns the number of other places.
static size_t places_answer(struct lookup *lookup, int64_t upid)
{
    size_t n_left = 0;
    for (size_t i = 0; i < lookup->places.n; i++) {
        struct place *place = &lookup->places.items[i];
        uint32_t latest = code_cover_at(&lookup->cover, i);
        if (latest == CODE_NONE)
            continue;
        if (place->earliest == latest && lookup->codes.items[latest].gone_ts > place->last_from) {
            place->current = latest;
            place->held_from = place->first_ts;
            place->held_to = place->last_ts;
            name_put(lookup, upid, place);
            place->current = CODE_NONE; // written already
            continue;
        }
        frame_mark(lookup->doubt, place->frame_id, i);
        n_left++;
    }
    return n_left;
}

static void sample_answer(struct lookup *lookup, int64_t upid, size_t at, int64_t ts, int64_t from)
{
    struct place *place = &lookup->places.items[at];
    uint32_t code = code_cover_at(&lookup->cover, at);
    if (code == CODE_NONE)
        code = place->earliest;
    else if (lookup->codes.items[code].gone_ts <= from)
        code = CODE_NONE;
    if (code != place->current) {
        name_put(lookup, upid, place);
        place->current = code;
        place->held_from = ts;
    }
    place->held_to = ts;
    if (code == CODE_NONE)
        frame_mark(lookup->nameless, place->frame_id, at);
}

// Looks up the remaining places sample by sample, with the code at the time of the sample.
static int samples_answer(struct lookup *lookup, int64_t upid)
{
    size_t next = 0;
    code_cover_done(&lookup->cover);
    int r = code_cover_init(&lookup->cover, lookup->addresses.items, lookup->addresses.n);
    sqlite3_bind_int64(lookup->samples, 1, upid);
    while (r == 0 && sqlite3_step(lookup->samples) == SQLITE_ROW) {
        int64_t ts = sqlite3_column_int64(lookup->samples, 1);
        for (; next < lookup->codes.n && lookup->codes.items[next].made_ts <= ts; next++)
            code_cover_put(&lookup->cover, lookup->codes.items[next].start,
                           lookup->codes.items[next].end, (uint32_t)next);
        sample_answer(lookup, upid, (size_t)sqlite3_column_int64(lookup->samples, 0), ts,
                      column_or(lookup->samples, 2, LONG_AGO));
    }
    if (sqlite3_reset(lookup->samples) != SQLITE_OK && r == 0)
        r = -EIO;
    vec_foreach(&lookup->places, place)
        name_put(lookup, upid, place);
    return r;
}

static int process_lookup(struct lookup *lookup, int64_t upid, struct err *err)
{
    int r = places_read(lookup, upid);
    if (r == 0)
        r = codes_read(lookup, upid);
    if (r == 0)
        r = earliest_find(lookup);
    if (r < 0)
        return err_errno(err, r, "perf maps");
    if (places_answer(lookup, upid)) {
        r = samples_answer(lookup, upid);
        if (r < 0)
            return err_errno(err, r, "perf maps");
        r = sql_run(lookup->handle, "DELETE FROM temp.jit_doubt", "perf maps", err);
    }
    return r < 0 ? r : rows_error(&lookup->rows, err);
}

static int lookup_open(struct lookup *lookup, sqlite3 *handle, struct err *err)
{
    struct {
        sqlite3_stmt **ret;
        const char *sql;
    } statements[] = {
        {&lookup->frames, "SELECT frame_id, pc, first_ts, last_ts, last_from FROM temp.jit_frame "
                          "WHERE upid = ? AND pc >= 0 ORDER BY pc"},
        {&lookup->symbols, "SELECT s.id, s.start, s.size, s.first_ts, s.last_ts "
                           "FROM perf_map_symbol s JOIN perf_map m ON m.id = s.perf_map_id "
                           "WHERE m.upid = ? AND s.start >= 0 ORDER BY s.first_ts, s.id"},
        {&lookup->samples, samples_sql},
        {&lookup->doubt, "INSERT OR IGNORE INTO temp.jit_doubt VALUES(?1, ?2)"},
        {&lookup->nameless, "INSERT OR IGNORE INTO temp.jit_nameless VALUES(?1, ?2)"},
    };
    lookup->handle = handle;
    for (size_t i = 0; i < ELEMENTS(statements); i++)
        if (sqlite3_prepare_v2(handle, statements[i].sql, -1, statements[i].ret, NULL) != SQLITE_OK)
            return err_set(err, -EIO, "perf maps: %s", sqlite3_errmsg(handle));
    return rows_open(&lookup->rows, handle, TABLE_perf_map_frame, err);
}

static void lookup_close(struct lookup *lookup)
{
    sqlite3_finalize(lookup->frames);
    sqlite3_finalize(lookup->symbols);
    sqlite3_finalize(lookup->samples);
    sqlite3_finalize(lookup->doubt);
    sqlite3_finalize(lookup->nameless);
    place_vec_done(&lookup->places);
    address_vec_done(&lookup->addresses);
    code_vec_done(&lookup->codes);
    code_cover_done(&lookup->cover);
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
    int code = SQLITE_DONE;
    while (r == 0 && (code = sqlite3_step(processes)) == SQLITE_ROW)
        r = process_lookup(&lookup, sqlite3_column_int64(processes, 0), err);
    if (r == 0 && code != SQLITE_DONE)
        r = err_set(err, -EIO, "perf maps: %s", sqlite3_errmsg(handle));
    sqlite3_finalize(processes);
    return r;
}

int perf_map_frames_name(struct sqlite3 *handle, struct err *err)
{
    int r = 0;
    bool maps = sql_number_or_failure(handle, "SELECT count(*) FROM perf_map", 0, &r);
    bool times = sql_number_or_failure(handle, "SELECT count(*) FROM perf_map_code", 0, &r);
    if (r < 0 || !maps)
        return r < 0 ? err_errno(err, r, "perf maps") : 0;
    r = sql_run(handle, frames_sql, "perf maps", err);
    if (r == 0 && times)
        r = sql_run(handle, times_sql, "perf maps", err);
    if (r == 0)
        r = frames_lookup(handle, err);
    return r < 0 ? r : sql_run(handle, names_sql, "perf maps", err);
}
