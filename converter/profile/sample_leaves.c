// SPDX-License-Identifier: Apache-2.0
//
// A session of samples belongs to its timebase, the event that caused the samples. The name of the
// event gives the kind. Events have the names of perf, or of the kernel's tracepoints. A name can
// end with modifiers, as in "cpu-cycles:u".
#include "converter/profile/sample_leaves.h"

#include <stddef.h>

static const char sessions_sql[] =
    "CREATE TEMP TABLE IF NOT EXISTS sample_kind(kind, pattern);"
    "DELETE FROM sample_kind;"
    "INSERT INTO sample_kind VALUES "
    "('cpu', 'cpu-clock*'), ('cpu', 'task-clock*'), ('cpu', 'cpu-cycles*'), ('cpu', 'cycles*'), "
    "('cpu', 'ref-cycles*'), ('cpu', 'instructions*'), "
    "('faults', 'page-faults*'), ('faults', 'minor-faults*'), ('faults', 'major-faults*'), "
    "('faults', 'faults*'), ('faults', 'exceptions[:/]page_fault_*'), "
    "('reclaim', 'vmscan[:/]*'), ('reclaim', 'compaction[:/]*'), ('reclaim', 'oom[:/]*');";

static const char leaves_sql[] =
    "WITH chosen AS ("
    "  SELECT DISTINCT perf_session_id FROM main.perf_counter_track c WHERE is_timebase AND "
    "  (name GLOB ?1 OR EXISTS (SELECT 1 FROM sample_kind WHERE kind = ?1 AND c.name GLOB pattern))"
    "), found AS MATERIALIZED ("
    "  SELECT s.callsite_id, t.upid, iif(?6, s.utid, NULL) AS utid, count(*) AS n "
    "  FROM main.perf_sample s JOIN main.thread t USING (utid) LEFT JOIN main.process p USING "
    "  (upid) "
    "  WHERE s.callsite_id IS NOT NULL AND s.perf_session_id IN chosen "
    "  AND s.ts >= ?2 AND s.ts <= ?3 AND (?7 < 0 OR p.pid = ?7) "
    "  AND (?4 IS NULL OR ?4 = '' OR instr(?4, ',' || p.pid || ',')) "
    "  AND (?5 IS NULL OR p.name GLOB ?5) GROUP BY 1, 2, 3) "
    "SELECT f.callsite_id, f.upid, p.pid, p.name, "
    "coalesce(t.name, iif(t.tid = p.pid, p.name, NULL), 'thread') || ' (' || t.tid || ')', f.n, "
    "(SELECT count(DISTINCT coalesce(upid, -1)) FROM found) "
    "FROM found f LEFT JOIN main.process p USING (upid) LEFT JOIN main.thread t USING (utid) "
    "ORDER BY f.upid, f.utid, f.callsite_id";

int sample_leaves_prepare(sqlite3 *handle, const struct sample_choice *choice, sqlite3_stmt **ret)
{
    int code = sqlite3_exec(handle, sessions_sql, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(handle, leaves_sql, -1, ret, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_bind_text(*ret, 1, choice->of, -1, SQLITE_STATIC);
    sqlite3_bind_int64(*ret, 2, choice->from == INT64_MIN ? INT64_MIN : choice->from + 1);
    sqlite3_bind_int64(*ret, 3, choice->to);
    sqlite3_bind_text(*ret, 4, choice->pids, -1, SQLITE_STATIC);
    sqlite3_bind_text(*ret, 5, choice->process, -1, SQLITE_STATIC);
    sqlite3_bind_int(*ret, 6, choice->by_thread);
    sqlite3_bind_int64(*ret, 7, choice->pid);
    return SQLITE_OK;
}
