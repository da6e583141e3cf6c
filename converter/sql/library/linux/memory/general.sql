-- SPDX-License-Identifier: Apache-2.0
--
-- Counters of processes as intervals.

-- All counters of processes: ts and dur (ns), upid, value in the counter's unit, track_id, name. A
-- row lasts until the next reading, and the last row until 1 ns after the end of the process or the
-- trace. The window has all columns that questions use, so that SQLite reads only the rows of a
-- question.
CREATE PERFETTO VIEW _all_counters_per_process AS
SELECT c.ts, coalesce(
    lead(c.ts) OVER (PARTITION BY c.track_id, t.upid, t.name ORDER BY c.ts),
    coalesce((SELECT p.end_ts FROM process p WHERE p.upid = t.upid), trace_end()) + 1)
    - c.ts AS dur,
  t.upid, c.value, c.track_id, t.name
FROM process_counter_track t JOIN counter c ON c.track_id = t.id;
