-- SPDX-License-Identifier: Apache-2.0
--
-- Tasks: reclaim and compaction of each task, killed tasks, and tasks with most memory.

-- @setup
-- The other queries read this table, so the view is read once. An episode is open if its end is not
-- in the trace: the recording ended first, or the event was lost. Sums leave out open episodes.
CREATE TEMP TABLE IF NOT EXISTS report_episode AS
SELECT kind, ts, dur, coalesce(upid, -1 - utid) AS task,
  coalesce(process_name, thread_name,
    'unknown (tid ' || (SELECT tid FROM thread t WHERE t.utid = e.utid) || ')') AS name,
  reclaimed_pages, machine_id,
  kind != 'kswapd' AND ts + dur >= (
    SELECT min(b.end_ts) FROM machine_bounds b WHERE b.machine_id = e.machine_id) AS is_open
FROM reclaim_episode e;

-- @lanes
-- Episodes of reclaim and compaction by task: the busiest tasks have a lane each. If a lane has few
-- episodes, each is a piece. Otherwise the episodes that begin in one bin are one piece of `n`
-- episodes, which took `d` (us) in sum and end at `e`. In the time `w` (us) at least one of them
-- went on and none of an earlier piece: threads of a process may wait at once. Episodes that are
-- longer than a bin and open episodes are separate pieces.
WITH
mine AS (SELECT * FROM report_episode WHERE machine_id = :machine),
task AS (
  SELECT task, row_number() OVER (ORDER BY sum(iif(is_open, 0, dur)) DESC, task) AS place,
    name || coalesce(' (' || (SELECT pid FROM process WHERE upid = task) || ')', '') AS lane,
    count(*) <= 2 * (:end - :start) / :bin AS is_calm
  FROM mine GROUP BY task),
placed AS (
  SELECT min(place, 13) AS place, iif(place <= 12, lane, 'others') AS series, kind, ts, dur,
    reclaimed_pages, is_open, dur >= :bin AS is_long,
    ts / iif(is_calm AND place <= 12, 1, :bin) AS bin
  FROM mine JOIN task USING (task)),
episode AS (
  SELECT *, max(ts + dur) OVER (PARTITION BY place, kind, is_open, is_long ORDER BY ts
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS busy_until
  FROM placed)
SELECT series, kind, (min(ts) - :start) / 1000 AS t, (max(ts + dur) - :start) / 1000 AS e,
  count(*) AS n, sum(iif(is_open, 0, dur)) / 1000 AS d,
  sum(max(ts + dur - max(ts, coalesce(busy_until, ts)), 0)) / 1000 AS w,
  sum(reclaimed_pages) * :page AS bytes, is_open AS open
FROM episode GROUP BY place, kind, bin, is_open, is_long ORDER BY place, kind, min(ts);

-- @reclaim_by_task
-- The cost of reclaim and compaction.
SELECT name || coalesce(' (' || (SELECT pid FROM process WHERE upid = task_id) || ')', '') AS task,
  kind, count(*) AS times, sum(iif(is_open, NULL, dur)) AS total_ns, max(longest) AS longest_ns,
  (max(iif(dur = longest AND NOT is_open, ts, NULL)) - :start) / 1000 AS at_us,
  sum(reclaimed_pages) * :page AS reclaimed_bytes
FROM (SELECT *, task AS task_id,
        max(iif(is_open, NULL, dur)) OVER (PARTITION BY task, kind) AS longest FROM report_episode
      WHERE machine_id = :machine)
GROUP BY task_id, kind ORDER BY total_ns DESC LIMIT 40;

-- @kills
-- Processes that were killed because memory ran out.
WITH killed AS (
  SELECT e.ts, e.name, e.utid,
    (SELECT int_value FROM args a WHERE a.arg_set_id = e.arg_set_id AND a.key = 'pid') AS pid
  FROM ftrace_event e JOIN thread USING (utid)
  WHERE e.name IN ('mark_victim', 'lowmemory_kill') AND thread.machine_id = :machine)
SELECT (k.ts - :start) / 1000 AS t, k.pid,
  (SELECT coalesce(p.name, t.name) FROM thread t LEFT JOIN process p USING (upid)
   WHERE t.tid = k.pid AND t.machine_id = :machine AND coalesce(t.start_ts, k.ts) <= k.ts
   ORDER BY t.start_ts DESC LIMIT 1) AS process,
  (SELECT coalesce(p.name, t.name) FROM thread t LEFT JOIN process p USING (upid)
   WHERE t.utid = k.utid) AS wanted_by
FROM killed k
UNION ALL
SELECT (s.ts - :start) / 1000, p.pid, p.name, NULL
FROM slice s JOIN process_track t ON t.id = s.track_id LEFT JOIN process p USING (upid)
WHERE t.type = 'android_lmk' AND t.machine_id = :machine
ORDER BY 1 LIMIT 200;

-- @kills_watched
-- A row if kills would be in the trace.
SELECT has_losses FROM report_watched WHERE trace_id = :trace AND kind = 'kill';

-- @processes
-- Memory of the processes that had most memory (bytes): anonymous memory in RAM and in swap if the
-- trace has both numbers, else all memory in RAM. A process that has ended has no memory. A bin has
-- its greatest value. Before a bin without values its last value follows, which the chart holds.
WITH
track AS (
  SELECT t.id, t.upid, t.name FROM process_counter_track t
  WHERE t.type = 'process_memory' AND t.machine_id = :machine
    AND t.name = coalesce(
      (SELECT name FROM process_counter_track WHERE name = 'mem.rss.anon' LIMIT 1), 'mem.rss')),
peak AS (
  SELECT t.id, t.upid, (SELECT max(value) FROM counter c WHERE c.track_id = t.id) AS most
  FROM track t),
largest AS (
  SELECT id, upid, row_number() OVER (ORDER BY most DESC, upid) AS place FROM peak
  WHERE most > 0 ORDER BY most DESC LIMIT 8),
reading AS MATERIALIZED (
  SELECT l.place, l.upid, c.ts / :bin AS bin, c.ts, c.value FROM largest l
  JOIN process p USING (upid) JOIN counter c ON c.track_id = l.id
  WHERE p.end_ts IS NULL OR c.ts < p.end_ts),
last AS (
  SELECT place, upid, bin, max(ts) AS ts, value,
    lead(bin) OVER (PARTITION BY place ORDER BY bin) AS next_bin
  FROM reading GROUP BY place, bin),
row AS (
  SELECT place, upid, ts, max(value) AS value FROM reading GROUP BY place, bin
  UNION
  SELECT place, upid, ts, value FROM last WHERE next_bin IS NOT bin + 1
  UNION ALL
  SELECT l.place, l.upid, p.end_ts, 0 FROM largest l JOIN process p USING (upid)
  WHERE p.end_ts IS NOT NULL)
SELECT coalesce(p.name, 'process') || ' (' || p.pid || ')' AS series, (r.ts - :start) / 1000 AS t,
  CAST(r.value AS INTEGER) AS v
FROM row r JOIN process p USING (upid) ORDER BY r.place, r.ts;

-- @process_table
-- The processes that had most memory.
WITH track AS (
  SELECT t.id, t.upid FROM process_counter_track t
  WHERE t.type = 'process_memory' AND t.machine_id = :machine
    AND t.name = coalesce(
      (SELECT name FROM process_counter_track WHERE name = 'mem.rss.anon' LIMIT 1), 'mem.rss')),
sum AS (
  SELECT upid,
    (SELECT c.value FROM counter c WHERE c.track_id = t.id ORDER BY c.ts LIMIT 1) AS first,
    (SELECT c.value FROM counter c WHERE c.track_id = t.id ORDER BY c.ts DESC LIMIT 1) AS last,
    (SELECT max(c.value) FROM counter c WHERE c.track_id = t.id) AS most
  FROM track t)
SELECT coalesce(p.name, 'process') || ' (' || p.pid || ')' AS process,
  CAST(first AS INTEGER) AS first_bytes, CAST(most AS INTEGER) AS peak_bytes,
  CAST(last AS INTEGER) AS last_bytes, CAST(last - first AS INTEGER) AS change_bytes
FROM sum JOIN process p USING (upid) WHERE most > 0 ORDER BY most DESC LIMIT 25;
