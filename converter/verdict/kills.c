// SPDX-License-Identifier: Apache-2.0
//
// Processes that were killed because memory ran out: by the kernel (oom/mark_victim), by the old
// low memory killer (lowmemory_kill), and by Android's lmkd (its marks in the trace). If only a
// counter shows a kill, the sentence has this fact and a hint for a better recording.
#include <inttypes.h>

#include "common/cleanup.h"
#include "converter/verdict/counter_values.h"
#include "converter/verdict/rules.h"

#define NAMED_MAX 3

static const char query[] =
    "SELECT e.ts, e.name, a.int_value AS killed_pid, t.name AS allocating FROM ftrace_event e "
    "JOIN args a ON a.arg_set_id = e.arg_set_id AND a.key = 'pid' LEFT JOIN thread t ON "
    "t.utid = e.utid WHERE e.name IN ('mark_victim', 'lowmemory_kill') ORDER BY e.ts";
static const char query_counter[] =
    "SELECT ts, dur, change FROM vmstat_rate WHERE name = 'oom_kill' AND change > 0";

// Without kernel events, the rule reads the slices that the conversion made from the events.
static const char kills_sql[] =
    "WITH event AS (SELECT e.ts, e.utid, e.id, k.name FROM _arg_kind k CROSS JOIN _arg_set e "
    "ON e.kind_id = k.id WHERE k.name IN ('mark_victim', 'lowmemory_kill') AND e.ts IS NOT NULL "
    "AND e.ucpu / 4096 " OF_TRACE "), "
    "killed AS (SELECT ts, utid AS by_utid, name = 'mark_victim' AS is_oom, "
    "(SELECT int_value FROM args a WHERE a.arg_set_id = event.id AND a.key = 'pid') AS pid "
    "FROM event), "
    "victim AS (SELECT k.*, (SELECT t.utid FROM thread t WHERE t.tid = k.pid AND "
    "t.machine_id " OF_TRACE " AND coalesce(t.start_ts, k.ts) <= k.ts "
    "ORDER BY t.start_ts DESC LIMIT 1) AS utid FROM killed k) "
    "SELECT v.ts, t.upid, v.utid, v.pid, v.by_utid, v.is_oom FROM victim v "
    "LEFT JOIN thread t ON t.utid = v.utid "
    "UNION ALL SELECT s.ts, t.upid, NULL, NULL, NULL, 0 FROM _track t "
    "CROSS JOIN slice s ON s.track_id = t.id "
    "WHERE t.type = 'android_lmk' AND t.machine_id " OF_TRACE " "
    "UNION ALL SELECT s.ts, h.upid, t.utid, NULL, NULL, 1 FROM slice s "
    "JOIN _track t ON t.id = s.track_id JOIN thread h ON h.utid = t.utid "
    "WHERE s.name = 'mem.oom_kill' AND t.machine_id " OF_TRACE " "
    "AND " EVENTS_LEFT_OUT " ORDER BY 1";

static int64_t id_of(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL ? -1 : sqlite3_column_int64(row, column);
}

static void memory_add(struct strbuf *text, struct subject *subject, int64_t upid, int64_t ts)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row =
        subject_ask(subject, "SELECT value, is_anon FROM (SELECT id, name = 'mem.rss.anon' AS "
                             "is_anon FROM _track WHERE upid = ?2 AND is_counter AND "
                             "name IN ('mem.rss.anon', 'mem.rss') AND ?1 >= 0) t "
                             "CROSS JOIN counter c ON c.track_id = t.id WHERE c.ts <= ?3 "
                             "ORDER BY t.is_anon DESC, c.ts DESC LIMIT 1");
    if (!row || upid < 0)
        return;
    sqlite3_bind_int64(row, 2, upid);
    sqlite3_bind_int64(row, 3, ts);
    if (!subject_row(subject, row) || sqlite3_column_double(row, 0) <= 0)
        return;
    text_tell(text, subject, " with %B %s", sqlite3_column_double(row, 0),
              sqlite3_column_int(row, 1) ? "of anonymous memory" : "of memory");
}

static void victim_add(struct strbuf *text, struct subject *subject, sqlite3_stmt *row)
{
    int64_t upid = id_of(row, 1), utid = id_of(row, 2), by = id_of(row, 4);
    int64_t ts = sqlite3_column_int64(row, 0);
    if (upid >= 0 || utid >= 0)
        text_task(text, subject, upid, utid);
    else
        strbuf_addf(text, "pid %" PRId64, id_of(row, 3));
    text_tell(text, subject, " at %A", ts);
    memory_add(text, subject, upid, ts);
    if (by < 0 || !sqlite3_column_int(row, 5))
        return;
    if (by == utid)
        strbuf_add_str(text, ", after a request of its own");
    else
        text_tell(text, subject, ", after a request of %T", NOT_KNOWN, by);
}

static bool kills_tell(struct subject *subject)
{
    CLEANUP(subject_end) sqlite3_stmt *row = subject_ask(subject, kills_sql);
    CLEANUP(strbuf_done) struct strbuf text = {0}, names = {0};
    int64_t n = 0, first = 0, last = 0;
    bool by_kernel = true;
    while (subject_row(subject, row)) {
        last = subject_time(row, 0);
        first = n ? first : last;
        by_kernel &= sqlite3_column_int(row, 5) != 0;
        if (++n > NAMED_MAX)
            continue;
        strbuf_add_str(&names, n > 1 ? "; " : "");
        victim_add(&names, subject, row);
    }
    if (!n || subject->code != SQLITE_OK)
        return n > 0;
    strbuf_add_str(&text, by_kernel ? "Memory ran out: the kernel killed "
                                    : "The low memory killer killed ");
    if (n > 1)
        text_tell(&text, subject, "%N processes: ", n);
    strbuf_add_str(&text, names.text ? names.text : "");
    if (n > NAMED_MAX)
        text_tell(&text, subject, "; the last at %A", last);
    strbuf_add_char(&text, '.');
    subject_found(subject, VERDICT_KILL, VERDICT_CRITICAL, first, last - first, &text, query);
    return true;
}

void rule_kill(struct subject *subject)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    if (kills_tell(subject))
        return;
    int64_t n = vmstat_growth(subject, "oom_kill");
    if (!n)
        return;
    strbuf_add_str(&text, "Memory ran out: the kernel killed ");
    text_times(&text, n, "process", "processes");
    strbuf_add_str(&text, "; the trace does not say which (record oom/mark_victim).");
    subject_found(subject, VERDICT_KILL, VERDICT_CRITICAL, 0, -1, &text, query_counter);
}
