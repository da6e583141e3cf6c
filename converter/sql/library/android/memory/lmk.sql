-- SPDX-License-Identifier: Apache-2.0
--
-- Processes that Android's memory killer (lmkd) killed. Three generations of Android write the
-- kills in three ways; the newest one that the trace has counts.

INCLUDE PERFETTO MODULE android.oom_adjuster;

-- Name of a reason of lmkd, as in its statslog.h.
CREATE PERFETTO FUNCTION _android_lmk_kill_reason_string(
  -- Number of the reason.
  kill_reason LONG
)
-- Name; UNKNOWN for NULL and for numbers without a name.
RETURNS STRING AS
SELECT coalesce(
  json_extract('["PRESSURE_AFTER_KILL", "NOT_RESPONDING", "LOW_SWAP_AND_THRASHING",
    "LOW_MEM_AND_SWAP", "LOW_MEM_AND_THRASHING", "DIRECT_RECL_AND_THRASHING",
    "LOW_MEM_AND_SWAP_UTIL", "LOW_FILECACHE_AFTER_THRASHING", "LOW_MEM", "DIRECT_RECL_STUCK"]',
    iif($kill_reason >= 0, '$[' || $kill_reason || ']', NULL)),
  iif($kill_reason BETWEEN 1000 AND 1999, 'VENDOR_REASON', 'UNKNOWN'));

-- Kills that lmkd wrote as slices named lmk,PID,REASON,SCORE. `generation` is 3 for moments on the
-- track of lmkd, and 2 for the slices of older versions.
CREATE PERFETTO TABLE _lmk_slice AS
WITH
  named AS (
    SELECT s.ts, s.name,
      CASE
        WHEN s.dur > 0 THEN 2
        WHEN s.dur = 0
          AND s.track_id IN (SELECT id FROM process_track WHERE name = 'lowmemorykiller') THEN 3
      END AS generation
    FROM slice s WHERE s.name GLOB 'lmk,*'
  )
SELECT generation, ts, CAST(str_split(name, ',', 1) AS INTEGER) AS pid,
  CAST(str_split(name, ',', 2) AS INTEGER) AS kill_reason_raw,
  CAST(str_split(name, ',', 3) AS INTEGER) AS oom_score_adj
FROM named WHERE generation IS NOT NULL;

-- Kills that the first lmkd wrote as values of a counter: the process that is killed. The score is
-- taken from the process's own counter.
CREATE PERFETTO TABLE _lmk_counter AS
SELECT c.ts, CAST(c.value AS INTEGER) AS pid, s.score AS oom_score_adj
FROM counter_track t JOIN counter c ON c.track_id = t.id
LEFT JOIN (
  SELECT i.ts, i.dur, i.score, p.pid FROM process p JOIN _oom_adjuster_intervals i USING (upid)
) s ON s.pid = CAST(c.value AS INTEGER) AND s.ts <= c.ts AND c.ts < s.ts + s.dur
WHERE t.name = 'kill_one_process' AND c.value > 0;

CREATE PERFETTO VIEW _android_lmk_events AS
SELECT ts, pid, kill_reason_raw, oom_score_adj FROM _lmk_slice
WHERE generation = (SELECT max(generation) FROM _lmk_slice)
UNION ALL
SELECT ts, pid, NULL, oom_score_adj FROM _lmk_counter WHERE NOT EXISTS (SELECT 1 FROM _lmk_slice);

-- Kills by Android's memory killer.
CREATE PERFETTO TABLE android_lmk_events(
  -- Time at which lmkd asked for the kill (ns).
  ts TIMESTAMP,
  -- Process that was killed.
  upid JOINID(process.upid),
  -- Process id of the process.
  pid LONG,
  -- Name of the process.
  process_name STRING,
  -- Score of the process at its end, see android_oom_adj_intervals.
  oom_score_adj LONG,
  -- Name of the reason.
  kill_reason STRING,
  -- Number of the reason; NULL with the first lmkd.
  kill_reason_raw LONG
) AS
SELECT e.ts, p.upid, e.pid, p.name AS process_name, e.oom_score_adj,
  _android_lmk_kill_reason_string(e.kill_reason_raw) AS kill_reason, e.kill_reason_raw
FROM _android_lmk_events e
LEFT JOIN process p ON p.pid = e.pid
  AND e.ts BETWEEN coalesce(p.start_ts, trace_start()) AND coalesce(p.end_ts, trace_end());
