-- SPDX-License-Identifier: Apache-2.0
--
-- Bitmaps of apps: how many a process has, and how much memory they take. The counters come with
-- the atrace category "view".

INCLUDE PERFETTO MODULE counters.intervals;
INCLUDE PERFETTO MODULE intervals.intersect;

-- The intervals of a counter of processes: id, upid, ts and dur (ns), track_id, value.
CREATE PERFETTO MACRO _android_bitmap_intervals(
  -- Name of the counter.
  name Expr
)
RETURNS TableOrSubquery AS (
  SELECT i.id, t.upid, i.ts, i.dur, i.track_id, i.value
  FROM counter_leading_intervals!((
    SELECT c.id, c.ts, c.track_id, c.value
    FROM process_counter_track t JOIN counter c ON c.track_id = t.id
    WHERE t.name = $name
  )) i
  JOIN process_counter_track t ON t.id = i.track_id
  ORDER BY i.id
);

-- Memory of the bitmaps of each process.
CREATE PERFETTO TABLE android_bitmap_memory(
  -- Sample of the counter.
  id ID(counter.id),
  -- Process.
  upid JOINID(process.upid),
  -- Start (ns).
  ts TIMESTAMP,
  -- Until the value changes (ns).
  dur DURATION,
  -- Track of the counter.
  track_id JOINID(counter.track_id),
  -- Bytes.
  value LONG
) AS
SELECT id, upid, ts, dur, track_id, value FROM _android_bitmap_intervals!('Bitmap Memory');

-- Number of bitmaps of each process.
CREATE PERFETTO TABLE android_bitmap_count(
  -- Sample of the counter.
  id ID(counter.id),
  -- Process.
  upid JOINID(process.upid),
  -- Start (ns).
  ts TIMESTAMP,
  -- Until the value changes (ns).
  dur DURATION,
  -- Track of the counter.
  track_id JOINID(counter.track_id),
  -- Bitmaps.
  value LONG
) AS
SELECT id, upid, ts, dur, track_id, value FROM _android_bitmap_intervals!('Bitmap Count');

-- Both counters together. The two change one after the other, so a change has a short interval of
-- its own in between.
CREATE PERFETTO TABLE android_bitmap_counters_per_process(
  -- Process.
  upid JOINID(process.upid),
  -- Name of the process.
  process_name STRING,
  -- Start (ns).
  ts TIMESTAMP,
  -- Until one of the values changes (ns).
  dur DURATION,
  -- Bytes of all bitmaps.
  bitmap_memory LONG,
  -- Number of bitmaps.
  bitmap_count LONG,
  -- Sample of the memory.
  bitmap_memory_id JOINID(counter.id),
  -- Sample of the number.
  bitmap_count_id JOINID(counter.id)
) AS
SELECT i.upid, p.name AS process_name, i.ts, i.dur, m.value AS bitmap_memory,
  n.value AS bitmap_count, m.id AS bitmap_memory_id, n.id AS bitmap_count_id
FROM _interval_intersect!((android_bitmap_memory, android_bitmap_count), (upid)) i
JOIN android_bitmap_memory m ON m.id = i.id_0
JOIN android_bitmap_count n ON n.id = i.id_1
JOIN process p ON p.upid = i.upid;
