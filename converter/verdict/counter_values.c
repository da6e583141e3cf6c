// SPDX-License-Identifier: Apache-2.0
//
// An index on track and time finds first and last values, so the cost does not depend on the length
// of the trace.
#include "converter/verdict/counter_values.h"

#include "common/cleanup.h"

#define TRACKS                                                                                     \
    "FROM _track t WHERE t.is_counter AND t.type = ?2 AND t.name GLOB ?3 AND "                     \
    "t.machine_id " OF_TRACE

static sqlite3_stmt *counters_ask(struct subject *subject, const char *sql, const char *type,
                                  const char *name)
{
    sqlite3_stmt *row = subject_ask(subject, sql);
    sqlite3_bind_text(row, 2, type, -1, SQLITE_STATIC);
    sqlite3_bind_text(row, 3, name, -1, SQLITE_STATIC);
    return row;
}

struct counter_range counters_range(struct subject *subject, const char *type, const char *glob)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row = counters_ask(
        subject,
        "SELECT sum((SELECT value FROM counter c WHERE c.track_id = t.id ORDER BY ts LIMIT 1)), "
        "sum((SELECT value FROM counter c WHERE c.track_id = t.id ORDER BY ts DESC LIMIT "
        "1)) " TRACKS,
        type, glob);
    struct counter_range range = {0};
    if (subject_row(subject, row) && sqlite3_column_type(row, 0) != SQLITE_NULL)
        range = (struct counter_range){true, sqlite3_column_double(row, 0),
                                       sqlite3_column_double(row, 1)};
    return range;
}

int64_t vmstat_growth(struct subject *subject, const char *glob)
{
    struct counter_range range = counters_range(subject, "vmstat", glob);
    return range.found && range.last > range.first ? count_bounded(range.last - range.first) : 0;
}

struct reclaim_growth reclaim_growth(struct subject *subject, const char *quantity)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row = subject_ask(
        subject,
        "SELECT sum((SELECT value FROM counter c WHERE c.track_id = r.track_id ORDER BY ts DESC "
        "LIMIT 1) - (SELECT value FROM counter c WHERE c.track_id = r.track_id ORDER BY ts LIMIT "
        "1)), min(r.has_memcg) FROM reclaim_counter r WHERE r.in_total AND r.quantity = ?2 AND "
        "r.machine_id " OF_TRACE);
    sqlite3_bind_text(row, 2, quantity, -1, SQLITE_STATIC);
    struct reclaim_growth growth = {0};
    if (subject_row(subject, row) && sqlite3_column_type(row, 0) != SQLITE_NULL) {
        int64_t pages = count_bounded(sqlite3_column_double(row, 0));
        growth =
            (struct reclaim_growth){true, pages > 0 ? pages : 0, sqlite3_column_int(row, 1) != 0};
    }
    return growth;
}

struct counter_low counter_lowest(struct subject *subject, const char *type, const char *name,
                                  int64_t from, int64_t to)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row = counters_ask(
        subject,
        "SELECT c.ts, min(c.value), (SELECT value FROM counter f WHERE f.track_id = t.id "
        "ORDER BY f.ts LIMIT 1) FROM (SELECT t.id " TRACKS " LIMIT 1) t "
        "CROSS JOIN counter c ON c.track_id = t.id WHERE c.ts BETWEEN ?4 AND ?5",
        type, name);
    sqlite3_bind_int64(row, 4, from);
    sqlite3_bind_int64(row, 5, to);
    struct counter_low low = {0};
    if (subject_row(subject, row) && sqlite3_column_type(row, 0) != SQLITE_NULL)
        low = (struct counter_low){true, subject_time(row, 0), sqlite3_column_double(row, 1),
                                   sqlite3_column_double(row, 2)};
    return low;
}

// Reads rows of a time, a value and an id. A change of the id begins another counter.
static void rows_steps(struct subject *subject, sqlite3_stmt *row,
                       void (*each)(void *userdata, int64_t ts, int64_t end, double change),
                       void *userdata)
{
    bool goes_on = false;
    int64_t ts = 0, id = 0;
    double value = 0;
    for (; subject_row(subject, row); goes_on = true) {
        int64_t next_ts = subject_time(row, 0), next_id = sqlite3_column_int64(row, 2);
        double next = sqlite3_column_double(row, 1);
        if (goes_on && next_ts > ts && next_id == id)
            each(userdata, ts, next_ts, next - value);
        ts = next_ts;
        value = next;
        id = next_id;
    }
}

static void track_steps(struct subject *subject, int64_t track,
                        void (*each)(void *userdata, int64_t ts, int64_t end, double change),
                        void *userdata)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row = subject_ask(subject, "SELECT ts, value, track_id FROM counter WHERE "
                                             "track_id = ?2 AND ?1 >= 0 ORDER BY ts");
    sqlite3_bind_int64(row, 2, track);
    rows_steps(subject, row, each, userdata);
}

void counters_steps(struct subject *subject, const char *type, const char *glob,
                    void (*each)(void *userdata, int64_t ts, int64_t end, double change),
                    void *userdata)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row = counters_ask(subject, "SELECT t.id " TRACKS, type, glob);
    while (subject_row(subject, row))
        track_steps(subject, sqlite3_column_int64(row, 0), each, userdata);
}

void memcg_scan_steps(struct subject *subject,
                      void (*each)(void *userdata, int64_t ts, int64_t end, double change),
                      void *userdata)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row = subject_ask(
        subject, "SELECT c.ts, sum(iif(r.share = 'all', c.value, -c.value)), r.machine_id "
                 "FROM reclaim_counter r JOIN counter c USING (track_id) "
                 "WHERE r.quantity = 'scanned' AND r.has_memcg AND r.machine_id " OF_TRACE
                 " GROUP BY r.machine_id, c.ts HAVING max(r.share = 'kswapd') AND "
                 "max(r.share = 'direct') ORDER BY r.machine_id, c.ts");
    rows_steps(subject, row, each, userdata);
}
