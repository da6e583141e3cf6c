-- SPDX-License-Identifier: Apache-2.0
--
-- Memory of Android's processes by kind and by importance. An app is a fork of a zygote and shares
-- the zygote's memory until one of them writes to it: adjusted values leave the zygote's share out.

INCLUDE PERFETTO MODULE android.oom_adjuster;
INCLUDE PERFETTO MODULE counters.intervals;

-- Counters of memory: track_id, upid, name, unit (bytes for each unit of the counter).
CREATE PERFETTO TABLE _memory_breakdown_track AS
SELECT id AS track_id, upid, iif(name = 'Heap size (KB)', 'mem.heap', name) AS name,
  iif(name = 'Heap size (KB)', 1024, 1) AS unit
FROM process_counter_track
WHERE name IN ('mem.rss.anon', 'mem.rss.file', 'mem.rss.shmem', 'mem.swap', 'mem.locked',
  'mem.dmabuf_rss', 'Heap size (KB)', 'GPU Memory');

CREATE PERFETTO INDEX _memory_breakdown_track_id ON _memory_breakdown_track(track_id);

-- The memory that children share with their zygote, estimated by the zygote's average memory: upid,
-- name, size (bytes).
CREATE PERFETTO TABLE _zygote_memory AS
SELECT t.upid, t.name, CAST(avg(CAST(c.value AS INTEGER) * t.unit) AS INTEGER) AS size
FROM process p JOIN _memory_breakdown_track t ON t.upid = p.upid
JOIN counter c ON c.track_id = t.track_id
WHERE p.name IN ('zygote', 'zygote64')
  AND t.name IN ('mem.rss.anon', 'mem.rss.file', 'mem.swap', 'mem.heap')
GROUP BY t.upid, t.name;

CREATE PERFETTO INDEX _zygote_memory_upid ON _zygote_memory(upid, name);

-- Memory of processes, one row for each period in which a counter stayed the same and its process
-- lived. If the trace has no readings of a zygote, the values of its children stay as they are.
CREATE PERFETTO TABLE android_process_memory_intervals(
  -- Reading, see counter.
  id JOINID(counter.id),
  -- Start (ns).
  ts TIMESTAMP,
  -- Until another value, the end of the process or the trace (ns).
  dur DURATION,
  -- Name of the process.
  process_name STRING,
  -- Process.
  upid JOINID(process.upid),
  -- Process id.
  pid JOINID(process.pid),
  -- Kind of memory: mem.rss.anon, mem.swap, mem.heap, ...
  memory_track_name STRING,
  -- Counter.
  track_id JOINID(track.id),
  -- Memory (bytes).
  value LONG,
  -- Memory without the share of the process's zygote (bytes), at least 0.
  zygote_adjusted_value LONG,
  -- 1: somewhere this counter jumps by more than 100 MiB, which may be an error of its accounting.
  track_has_spike_gt_100mib BOOL
) AS
WITH
  span AS MATERIALIZED (
    SELECT i.id, i.ts AS begin_ts, i.ts + i.dur AS end_ts, i.track_id,
           CAST(i.value AS INTEGER) AS value,
      i.delta_value
    FROM counter_leading_intervals!((
      SELECT c.id, c.ts, c.track_id, CAST(c.value AS INTEGER) * t.unit AS value
      FROM _memory_breakdown_track t JOIN counter c ON c.track_id = t.track_id
    )) i
  ),
  spiky AS (SELECT DISTINCT track_id FROM span WHERE abs(delta_value) > 100 * 1024 * 1024),
  alive AS (
    SELECT s.id, s.track_id, s.value, t.name, p.upid, p.pid, p.name AS process_name, p.parent_upid,
      max(s.begin_ts, ifnull(p.start_ts, s.begin_ts)) AS begin_ts,
      min(s.end_ts, ifnull(p.end_ts, s.end_ts)) AS end_ts
    FROM span s JOIN _memory_breakdown_track t ON t.track_id = s.track_id
    JOIN process p ON p.upid = t.upid
  )
SELECT a.id, a.begin_ts AS ts, a.end_ts - a.begin_ts AS dur, a.process_name, a.upid, a.pid,
  a.name AS memory_track_name, a.track_id, a.value,
  iif(a.process_name IN ('zygote', 'zygote64'), a.value, max(0, a.value - ifnull(z.size, 0)))
    AS zygote_adjusted_value,
  a.track_id IN (SELECT track_id FROM spiky) AS track_has_spike_gt_100mib
FROM alive a LEFT JOIN _zygote_memory z ON z.upid = a.parent_upid AND z.name = a.name
WHERE a.end_ts > a.begin_ts;

-- Groups of importance, once for each counter of the process.
CREATE PERFETTO TABLE _memory_breakdown_importance AS
SELECT t.track_id, o.ts, o.dur, o.bucket
FROM _memory_breakdown_track t JOIN android_oom_adj_intervals o ON o.upid = t.upid
WHERE o.dur > 0;

CREATE VIRTUAL TABLE _memory_breakdown_joined USING SPAN_LEFT_JOIN(
  android_process_memory_intervals PARTITIONED track_id,
  _memory_breakdown_importance PARTITIONED track_id);

-- Intervals of android_process_memory_intervals, cut where the importance of the process changes.
CREATE PERFETTO TABLE android_process_memory_intervals_by_oom_bucket(
  -- Number of the row.
  id LONG,
  -- Start (ns).
  ts TIMESTAMP,
  -- Duration (ns).
  dur DURATION,
  -- Name of the process.
  process_name STRING,
  -- Process.
  upid JOINID(process.upid),
  -- Process id.
  pid JOINID(process.pid),
  -- Importance, see android_oom_adj_score_to_bucket_name; unknown without a score.
  bucket STRING,
  -- Kind of memory.
  memory_track_name STRING,
  -- Counter.
  track_id JOINID(track.id),
  -- Reading, see counter.
  counter_id JOINID(counter.id),
  -- Memory (bytes).
  value LONG,
  -- Memory without the share of the process's zygote (bytes), at least 0.
  zygote_adjusted_value LONG,
  -- 1: somewhere this counter jumps by more than 100 MiB.
  track_has_spike_gt_100mib BOOL
) AS
SELECT row_number() OVER () AS id, j.ts, j.dur, j.process_name, j.upid, j.pid,
  ifnull(j.bucket, 'unknown') AS bucket, j.memory_track_name, j.track_id, j.id AS counter_id,
  j.value, j.zygote_adjusted_value, j.track_has_spike_gt_100mib
FROM _memory_breakdown_joined j WHERE j.dur > 0;
