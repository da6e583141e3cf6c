// SPDX-License-Identifier: Apache-2.0
//
// Times on other clocks. Each statement reads the snapshots of a clock once, sorted by time, so a
// call is a binary search.
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "common/elements.h"
#include "common/vec.h"
#include "converter/functions/functions.h"

SQLITE_EXTENSION_INIT3

#define NSEC       ((uint64_t)1000000000)
#define CLOCK_REAL 1 // clock_snapshot.clock_id
#define CLOCK_MONO 3

struct snapshot {
    int64_t ts, value;
};
VEC_DEFINE(snapshot_vec, struct snapshot);

static void snapshots_free(void *snapshots)
{
    snapshot_vec_done(snapshots);
    sqlite3_free(snapshots);
}

// Reads the snapshots of a clock. The first of several snapshots at one time counts.
static int snapshots_read(sqlite3 *handle, int clock, struct snapshot_vec *ret)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle,
                                  "SELECT ts, clock_value FROM clock_snapshot WHERE clock_id = ?1 "
                                  "ORDER BY ts, id",
                                  -1, &statement, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_bind_int(statement, 1, clock);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct snapshot snapshot = {sqlite3_column_int64(statement, 0),
                                    sqlite3_column_int64(statement, 1)};
        if (ret->n && ret->items[ret->n - 1].ts == snapshot.ts)
            continue;
        if (snapshot_vec_push(ret, snapshot) < 0)
            break;
    }
    sqlite3_finalize(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code == SQLITE_ROW ? SQLITE_NOMEM : code;
}

// Returns the snapshots of a clock, which all calls in one statement share. Reports an error and
// returns NULL on failure.
static const struct snapshot_vec *snapshots_of(sqlite3_context *context, int clock)
{
    int key = clock == CLOCK_REAL ? SHARED_REALTIME : SHARED_MONOTONIC;
    struct snapshot_vec *snapshots = sqlite3_get_auxdata(context, key);
    if (snapshots)
        return snapshots;
    sqlite3 *handle = sqlite3_context_db_handle(context);
    snapshots = sqlite3_malloc(sizeof(*snapshots));
    if (!snapshots) {
        sqlite3_result_error_nomem(context);
        return NULL;
    }
    *snapshots = (struct snapshot_vec){0};
    int code = snapshots_read(handle, clock, snapshots);
    if (code != SQLITE_OK) {
        snapshots_free(snapshots);
        if (code == SQLITE_NOMEM)
            sqlite3_result_error_nomem(context);
        else
            sqlite3_result_error(context, sqlite3_errmsg(handle), -1);
        return NULL;
    }
    sqlite3_set_auxdata(context, key, snapshots, snapshots_free);
    return sqlite3_get_auxdata(context, key);
}

// Returns a + (to - from), or the nearest number of 64 bits.
static int64_t moved(int64_t a, int64_t from, int64_t to)
{
    int64_t distance, sum;
    if (__builtin_sub_overflow(to, from, &distance))
        distance = to < from ? INT64_MIN : INT64_MAX;
    if (__builtin_add_overflow(a, distance, &sum))
        sum = distance < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

// Returns the clock's time at a moment. The clock advances from the snapshot before the moment, but
// not beyond the next snapshot. Before the first snapshot, the clock does not advance, as in
// Perfetto.
static int64_t clock_at(const struct snapshot_vec *snapshots, int64_t ts)
{
    size_t low = 0, high = snapshots->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (snapshots->items[middle].ts < ts)
            low = middle + 1;
        else
            high = middle;
    }
    const struct snapshot *next = &snapshots->items[low];
    if (low == 0 || (low < snapshots->n && next->ts == ts))
        return next->value;
    int64_t value = moved(next[-1].value, next[-1].ts, ts);
    return low < snapshots->n && next->value < value ? next->value : value;
}

// Returns true with the clock's time in *ret. Returns false if the clock has no time for `ts`, or
// after an error, which the function reports.
static bool time_on_clock(sqlite3_context *context, sqlite3_value *ts, int clock, int64_t *ret)
{
    int type = sqlite3_value_numeric_type(ts);
    if (type == SQLITE_NULL)
        return false;
    if (type != SQLITE_INTEGER) {
        sqlite3_result_error(context, "time on another clock: the time is not a whole number", -1);
        return false;
    }
    const struct snapshot_vec *snapshots = snapshots_of(context, clock);
    if (!snapshots || !snapshots->n)
        return false;
    *ret = clock_at(snapshots, sqlite3_value_int64(ts));
    return true;
}

static void to_realtime(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    int64_t time;
    if (time_on_clock(context, argv[0], CLOCK_REAL, &time))
        sqlite3_result_int64(context, time);
}

static void to_monotonic(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    int64_t time;
    if (time_on_clock(context, argv[0], CLOCK_MONO, &time))
        sqlite3_result_int64(context, time);
}

static void abs_time_str(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    int64_t ns;
    if (!time_on_clock(context, argv[0], CLOCK_REAL, &ns))
        return;
    int64_t part = ns % (int64_t)NSEC;
    time_t seconds = (time_t)(ns / (int64_t)NSEC - (part < 0));
    struct tm tm;
    char text[96];
    if (!gmtime_r(&seconds, &tm))
        return;
    snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%09" PRId64, tm.tm_year + 1900,
             tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
             part < 0 ? part + (int64_t)NSEC : part);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void timecode(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    int64_t ns = sqlite3_value_int64(argv[0]);
    uint64_t t = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    char text[64];
    snprintf(text, sizeof(text),
             "%s%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64 " %03" PRIu64 " %03" PRIu64 " %03" PRIu64,
             ns < 0 ? "-" : "", t / NSEC / 3600, t / NSEC / 60 % 60, t / NSEC % 60,
             t / 1000000 % 1000, t / 1000 % 1000, t % 1000);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

int clock_functions_register(sqlite3 *handle)
{
    static const struct scalar_function functions[] = {
        {"to_realtime", 1, to_realtime, READS_DATABASE | IS_INTRINSIC},
        {"to_monotonic", 1, to_monotonic, READS_DATABASE | IS_INTRINSIC},
        {"abs_time_str", 1, abs_time_str, READS_DATABASE | IS_INTRINSIC},
        {"to_timecode", 1, timecode, IS_INTRINSIC},
    };
    return scalar_functions_add(handle, functions, ELEMENTS(functions));
}
