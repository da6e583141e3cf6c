-- SPDX-License-Identifier: Apache-2.0
--
-- Pressure, memory and rates of the machine over time. Parameters of all queries of the report:
--   :trace    id of the trace
--   :machine  first machine of the trace
--   :start    start of the trace (ns)
--   :end      end of the trace (ns)
--   :bin      width of a place on the time axis (ns)
--   :page     size of a page (bytes)
-- A dataset begins with a line "-- @NAME". If the first column is `series`, consecutive rows of one
-- series become one line of a chart. `t` is microseconds since the start. Counters have one value
-- in each bin, so that the size of the page does not depend on the size of the trace.

-- @pressure
-- The share of time in which tasks stalled (percent), from one reading of PSI to the next.
WITH
reading AS (
  SELECT t.name AS series, c.ts / :bin AS bin, max(c.ts) AS ts, c.value
  FROM counter_track t JOIN counter c ON c.track_id = t.id
  WHERE t.type = 'psi' AND t.machine_id = :machine
  GROUP BY t.id, c.ts / :bin),
step AS (
  SELECT series, ts, (value - lag(value) OVER w) * 100.0 / (ts - lag(ts) OVER w) AS percent
  FROM reading WINDOW w AS (PARTITION BY series ORDER BY ts))
SELECT series, (ts - :start) / 1000 AS t,
  round(coalesce(min(max(percent, 0), 100), lead(max(percent, 0)) OVER (
    PARTITION BY series ORDER BY ts)), 2) AS v
FROM step ORDER BY series, ts;

-- @memory
-- Levels of memory (bytes). If the trace has several counters of one quantity, the counter with the
-- first rank counts. A bin has the least free memory, and the most of all other levels.
WITH
source(rank, type, name, series, factor) AS (VALUES
  (0, 'vmstat', 'nr_free_pages', 'free', :page), (1, 'meminfo', 'MemFree', 'free', 1),
  (0, 'meminfo', 'MemAvailable', 'available', 1),
  (0, 'vmstat', 'nr_file_pages', 'file', :page), (1, 'meminfo', 'Cached', 'file', 1),
  (0, 'vmstat', 'nr_anon_pages', 'anonymous', :page), (1, 'meminfo', 'AnonPages', 'anonymous', 1),
  (2, 'vmstat', 'nr_active_anon', 'anonymous', :page),
  (2, 'vmstat', 'nr_inactive_anon', 'anonymous', :page),
  (0, 'vmstat', 'nr_slab_reclaimable', 'slab, reclaimable', :page),
  (1, 'meminfo', 'SReclaimable', 'slab, reclaimable', 1),
  (0, 'vmstat', 'nr_slab_unreclaimable', 'slab, unreclaimable', :page),
  (1, 'meminfo', 'SUnreclaim', 'slab, unreclaimable', 1)),
present AS (
  SELECT s.*, t.id AS track_id FROM source s JOIN counter_track t
    ON t.type = s.type AND t.name = s.name AND t.machine_id = :machine),
chosen AS (
  SELECT * FROM present p
  WHERE rank = (SELECT min(q.rank) FROM present q WHERE q.series = p.series)),
reading AS (
  SELECT p.series, c.ts,
    sum(c.value * p.factor) * iif(p.series IN ('free', 'available'), -1, 1) AS value
  FROM chosen p JOIN counter c ON c.track_id = p.track_id GROUP BY p.series, c.ts)
SELECT series, (ts - :start) / 1000 AS t, CAST(abs(max(value)) AS INTEGER) AS v
FROM reading GROUP BY series, ts / :bin ORDER BY series, ts / :bin;

-- @rates
-- Changes of the counters of /proc/vmstat per second: bytes for pages that are scanned, reclaimed,
-- read back, swapped, or read and written; counts for other counters. Pages that were scanned and
-- reclaimed in all are left out if the trace does not have those of memory cgroups.
WITH
source(name, series, factor) AS (VALUES
  ('workingset_refault', 'came back', :page),
  ('workingset_refault_file', 'file pages that came back', :page),
  ('workingset_refault_anon', 'anonymous pages that came back', :page),
  ('pgmajfault', 'major faults', 1), ('pgfault', 'faults', 1),
  ('pswpin', 'swapped in', :page), ('pswpout', 'swapped out', :page),
  ('pgpgin', 'read from disks', 1024), ('pgpgout', 'written to disks', 1024)),
track AS (
  SELECT s.series, s.factor, t.id FROM source s JOIN counter_track t ON t.name = s.name
  WHERE t.type = 'vmstat' AND t.machine_id = :machine
  UNION ALL
  SELECT quantity || iif(share = 'kswapd', ' by kswapd', ' by direct reclaim'), :page, track_id
  FROM reclaim_counter WHERE share IN ('kswapd', 'direct') AND machine_id = :machine
  UNION ALL
  SELECT quantity, :page, track_id FROM reclaim_counter
  WHERE in_total AND has_memcg AND machine_id = :machine),
reading AS (
  SELECT t.series, t.id AS track_id, c.ts / :bin AS bin, max(c.ts) AS ts,
    c.value * t.factor AS value
  FROM track t JOIN counter c ON c.track_id = t.id GROUP BY t.series, t.id, c.ts / :bin),
total AS (
  SELECT series, bin, max(ts) AS ts, sum(value) AS value FROM reading GROUP BY series, bin),
step AS (
  SELECT series, ts, (value - lag(value) OVER w) * 1e9 / (ts - lag(ts) OVER w) AS rate
  FROM total WINDOW w AS (PARTITION BY series ORDER BY ts))
SELECT series, (ts - :start) / 1000 AS t,
  round(coalesce(max(rate, 0), lead(max(rate, 0)) OVER (PARTITION BY series ORDER BY ts))) AS v
FROM step ORDER BY series, ts;
