-- SPDX-License-Identifier: Apache-2.0
--
-- Dumps of heap profiles as intervals: the time that each dump covers.

-- A row for each dump of a heap: id, upid, heap_name, ts and dur (ns), and sums (bytes):
-- `allocated`; `retained`, the memory that was allocated and not freed in this time; `delta`, all
-- allocations less all frees, frees of older memory, too. If a dump lacks the start of its time,
-- the time begins 1 ns after the heap's previous dump, or 1 ns after the start of the trace.
CREATE PERFETTO TABLE _android_heap_profile_intervals AS
WITH
  site AS (
    SELECT upid, heap_name, ts, callsite_id, min(id) AS id, sum(count) AS count, sum(size) AS size,
      sum(size) FILTER (WHERE size > 0) AS allocated
    FROM heap_profile_allocation GROUP BY upid, heap_name, ts, callsite_id
  ),
  total AS (
    SELECT upid, heap_name, ts, min(id) AS id,
           ifnull(sum(size) FILTER (WHERE count > 0), 0) AS retained,
      ifnull(sum(allocated), 0) AS allocated, sum(size) AS delta
    FROM site GROUP BY upid, heap_name, ts
  ),
  dump AS (
    SELECT t.*, p.start_ts,
      lag(t.ts, 1, trace_start()) OVER (PARTITION BY t.upid, t.heap_name ORDER BY t.ts) AS before_ts
    FROM total t
    JOIN (
      SELECT upid, ifnull(heap_name, 'unknown') AS heap_name, ts_end, min(ts) AS start_ts
      FROM heap_profile GROUP BY 1, 2, 3
    ) p ON p.upid = t.upid AND p.heap_name = t.heap_name AND p.ts_end = t.ts
  ),
  begun AS (SELECT *, iif(start_ts < ts, start_ts, min(before_ts + 1, ts)) AS begin_ts FROM dump)
SELECT id, upid, heap_name, begin_ts AS ts, ts - begin_ts AS dur, retained, allocated, delta
FROM begun ORDER BY upid, heap_name, ts;
