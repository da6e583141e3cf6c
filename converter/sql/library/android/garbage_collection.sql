-- SPDX-License-Identifier: Apache-2.0
--
-- Garbage collections of Android's runtime: their duration, the memory that they freed, and their
-- cost.

INCLUDE PERFETTO MODULE android.version;
INCLUDE PERFETTO MODULE slices.with_context;

-- Java heaps over time: upid, ts and end_ts (ns), value (KB).
CREATE PERFETTO TABLE _gc_heap AS
SELECT t.upid, c.ts,
       lead(c.ts, 1, trace_end()) OVER (PARTITION BY c.track_id ORDER BY c.ts) AS end_ts,
  CAST(c.value AS INTEGER) AS value
FROM process_counter_track t JOIN counter c ON c.track_id = t.id
WHERE t.name = 'Heap size (KB)';

CREATE PERFETTO INDEX _gc_heap_upid ON _gc_heap(upid, ts);

-- Collections. The phase that moves objects may come after the slice of its collection, and belongs
-- to this collection.
CREATE PERFETTO TABLE _gc_slice AS
WITH
  outermost AS (
    SELECT s.*, iif(s.dur = -1, trace_end() - s.ts, s.dur) AS known_dur,
      lead(s.name) OVER w AS next_name, lead(s.dur) OVER w AS next_dur
    FROM thread_slice s WHERE s.depth = 0
    WINDOW w AS (PARTITION BY s.track_id ORDER BY s.ts)
  )
SELECT id AS gc_id, name AS gc_name, ts AS gc_ts,
  known_dur + iif(next_name IN ('CompactionPhase', 'Background concurrent copying GC'),
                  next_dur, 0) AS gc_dur,
  utid, tid, upid, pid, thread_name, process_name
FROM outermost WHERE name GLOB '*concurrent*GC';

-- The size of the heap after each collection: gc_id, last_value (KB); NULL if another collection
-- ended before the size was read.
CREATE PERFETTO TABLE _gc_last_value AS
WITH
  moment AS (
    SELECT upid, gc_ts + gc_dur AS ts, gc_id, NULL AS value FROM _gc_slice
    UNION ALL
    SELECT upid, ts, NULL, value FROM _gc_heap
  ),
  followed AS (SELECT gc_id,
               lead(value) OVER (PARTITION BY upid ORDER BY ts) AS last_value FROM moment)
SELECT gc_id, last_value FROM followed WHERE gc_id IS NOT NULL;

-- Collections with the least and the most memory of the heap during and after the collection (KB).
CREATE PERFETTO TABLE _gc_with_heap AS
SELECT g.*, max(max(h.value, l.last_value)) AS max_heap, min(min(h.value, l.last_value)) AS min_heap
FROM _gc_slice g
JOIN _gc_last_value l ON l.gc_id = g.gc_id
JOIN _gc_heap h ON h.upid = g.upid AND h.ts < g.gc_ts + g.gc_dur AND h.end_ts > g.gc_ts
GROUP BY g.gc_id;

-- States of the threads of collections during the collections: gc_id, state, io_wait, dur (ns).
CREATE PERFETTO TABLE _gc_state AS
SELECT g.gc_id, s.state, s.io_wait,
  min(iif(s.dur = -1, trace_end(), s.ts + s.dur), g.gc_ts + g.gc_dur) - max(s.ts, g.gc_ts) AS dur
FROM _gc_with_heap g
JOIN thread_state s ON s.utid = g.utid AND s.ts < g.gc_ts + g.gc_dur
  AND iif(s.dur = -1, trace_end(), s.ts + s.dur) > g.gc_ts;

-- Collections, and the states of their thread meanwhile.
CREATE PERFETTO TABLE android_garbage_collection_events(
  -- Thread id of the thread that collected.
  tid LONG,
  -- Process id.
  pid LONG,
  -- Thread.
  utid JOINID(thread.id),
  -- Process.
  upid JOINID(process.id),
  -- Name of the thread.
  thread_name STRING,
  -- Name of the process.
  process_name STRING,
  -- Why: native_alloc, alloc, explicit, collector_transition; young for new objects alone; full.
  gc_type STRING,
  -- 1: objects were moved in place; 0: copied.
  is_mark_compact LONG,
  -- Memory that was freed (MB).
  reclaimed_mb DOUBLE,
  -- Least memory of the heap (MB).
  min_heap_mb DOUBLE,
  -- Most memory of the heap (MB).
  max_heap_mb DOUBLE,
  -- Slice of the collection.
  gc_id LONG,
  -- Start (ns).
  gc_ts TIMESTAMP,
  -- Duration (ns).
  gc_dur DURATION,
  -- How long the thread ran (ns).
  gc_running_dur DURATION,
  -- How long the thread waited for a processor (ns).
  gc_runnable_dur DURATION,
  -- How long the thread waited for a device (ns).
  gc_unint_io_dur DURATION,
  -- How long the thread waited in the kernel for something else (ns).
  gc_unint_non_io_dur DURATION,
  -- How long the thread slept (ns).
  gc_int_dur LONG
) AS
WITH
  waited AS (
    SELECT gc_id, sum(dur) FILTER (WHERE state = 'Running') AS running,
      sum(dur) FILTER (WHERE state IN ('R', 'R+')) AS runnable,
      sum(dur) FILTER (WHERE state = 'D' AND io_wait = 1) AS device,
      sum(dur) FILTER (WHERE state = 'D' AND io_wait != 1) AS kernel,
      sum(dur) FILTER (WHERE state = 'S') AS asleep
    FROM _gc_state GROUP BY gc_id
  )
SELECT g.tid, g.pid, g.utid, g.upid, g.thread_name, g.process_name,
  CASE
    WHEN g.gc_name GLOB '*NativeAlloc*' THEN 'native_alloc'
    WHEN g.gc_name GLOB '*Alloc*' THEN 'alloc'
    WHEN g.gc_name GLOB '*young*' THEN 'young'
    WHEN g.gc_name GLOB '*CollectorTransition*' THEN 'collector_transition'
    WHEN g.gc_name GLOB '*Explicit*' THEN 'explicit'
    ELSE 'full'
  END AS gc_type,
  g.gc_name GLOB '*mark compact*' AS is_mark_compact,
  g.max_heap / 1e3 - g.min_heap / 1e3 AS reclaimed_mb,
  g.min_heap / 1e3 AS min_heap_mb, g.max_heap / 1e3 AS max_heap_mb, g.gc_id, g.gc_ts, g.gc_dur,
  ifnull(w.running, 0) AS gc_running_dur, ifnull(w.runnable, 0) AS gc_runnable_dur,
  ifnull(w.device, 0) AS gc_unint_io_dur, ifnull(w.kernel, 0) AS gc_unint_non_io_dur,
  ifnull(w.asleep, 0) AS gc_int_dur
FROM _gc_with_heap g LEFT JOIN waited w ON w.gc_id = g.gc_id
ORDER BY g.gc_id;

-- The time for which sizes of heaps are known: one row.
CREATE PERFETTO TABLE _gc_stats_window AS
SELECT min(ts) AS gc_stats_window_start, max(ts) AS gc_stats_window_end,
  max(ts) - min(ts) AS gc_stats_window_dur
FROM _gc_heap;

-- Starts of apps: ts and dur (ns). Android 13 has a slice for each start and a moment at its end.
-- Android 10 to 12 have a moment at the start and at the end, and a slice between. Older versions
-- have only the slice, so starts that had not ended at the end of the trace are missing.
CREATE PERFETTO TABLE _gc_app_start AS
WITH
  generation AS (
    SELECT coalesce(_android_sdk_version(), CASE
        WHEN EXISTS (SELECT 1 FROM slice WHERE name GLOB 'launchingActivity#*:*') THEN 33
        WHEN EXISTS (SELECT 1 FROM slice WHERE name GLOB 'MetricsLogger:*') THEN 29
        ELSE 28
      END) AS sdk
  ),
  finished AS (
    SELECT DISTINCT CAST(substr(name, 19) AS INTEGER) AS number, str_split(name, ':', 1) AS kind,
      str_split(name, ':', 2) AS package
    FROM slice
    WHERE name GLOB 'launchingActivity#*:completed*:*'
      AND name NOT GLOB '*:completed-same-process:*'
      AND dur = 0
  ),
  launch AS (
    SELECT ts, ts + dur AS end_ts FROM process_slice
    WHERE name GLOB 'launching: *' AND ifnull(process_name, 'system_server') = 'system_server'
  ),
  asked AS (
    SELECT ts, lead(ts, 1, trace_end()) OVER (ORDER BY ts) AS next_ts FROM slice
    WHERE name = 'MetricsLogger:launchObserverNotifyIntentStarted'
  )
SELECT s.ts, s.dur FROM slice s JOIN finished f ON f.number = CAST(substr(s.name, 19) AS INTEGER)
WHERE s.name GLOB 'launchingActivity#*' AND s.name NOT GLOB '*:*' AND s.dur > 0
  AND (SELECT sdk FROM generation) >= 33
UNION ALL
SELECT a.ts, max(l.end_ts) - a.ts FROM asked a JOIN launch l ON l.ts BETWEEN a.ts AND a.next_ts
WHERE (SELECT sdk FROM generation) BETWEEN 29 AND 32 AND EXISTS (
  SELECT 1 FROM slice s WHERE s.name = 'MetricsLogger:launchObserverNotifyActivityLaunchFinished'
    AND s.ts BETWEEN a.ts AND a.next_ts)
GROUP BY a.ts, a.next_ts HAVING count(*) = 1 AND max(l.end_ts) <= a.next_ts
UNION ALL
SELECT ts, end_ts - ts FROM launch WHERE (SELECT sdk FROM generation) < 29;

-- Cost and gain of the collections of each process: see _android_garbage_collection_stats.
CREATE PERFETTO TABLE _android_garbage_collection_process_stats AS
WITH
  heap AS (
    SELECT upid, sum(max(grown, 0)) / 1e3 AS heap_allocated_mb,
           sum(value * passed) / 1e12 AS heap_size_mbs
    FROM (
      SELECT upid, value, value - lag(value) OVER w AS grown, ts - lag(ts) OVER w AS passed
      FROM _gc_heap WINDOW w AS (PARTITION BY upid ORDER BY ts)
    )
    GROUP BY upid
  ),
  gc AS (
    SELECT upid, sum(gc_running_dur) AS gc_running_dur
    FROM android_garbage_collection_events GROUP BY upid
  ),
  disturbed AS (
    SELECT g.upid, sum(min(s.ts + s.dur, g.gc_ts + g.gc_dur) - max(s.ts, g.gc_ts)) AS disturbed_dur
    FROM android_garbage_collection_events g
    JOIN _gc_app_start s ON s.ts < g.gc_ts + g.gc_dur AND s.ts + s.dur > g.gc_ts AND s.dur > 0
    GROUP BY g.upid
  ),
  ended AS (
    SELECT upid, gc_ts, gc_ts + gc_dur AS end_ts, min_heap_mb, max_heap_mb
    FROM android_garbage_collection_events
    UNION
    SELECT p.upid, b.ts, b.ts, 0, 0
    FROM (
      SELECT upid, max(ifnull(start_ts, gc_stats_window_start), gc_stats_window_start) AS ts
      FROM process, _gc_stats_window
    ) b JOIN process p ON p.upid = b.upid
  ),
  period AS (
    SELECT upid, end_ts - lag(end_ts) OVER (PARTITION BY upid ORDER BY gc_ts) AS dur,
           min_heap_mb, max_heap_mb
    FROM ended
  ),
  used AS (
    SELECT upid, sum(dur * min_heap_mb) / 1e9 AS heap_live_mbs,
           sum(dur * max_heap_mb) / 1e9 AS heap_total_mbs
    FROM period WHERE min_heap_mb IS NOT NULL GROUP BY upid
  ),
  rate AS (
    SELECT h.upid, b.gc_stats_window_start AS ts, b.gc_stats_window_dur AS dur, h.heap_size_mbs,
      h.heap_size_mbs * 1e9 / b.gc_stats_window_dur AS heap_size_mb, h.heap_allocated_mb,
      h.heap_allocated_mb * 1e9 / b.gc_stats_window_dur AS heap_allocation_rate, u.heap_live_mbs,
      u.heap_total_mbs, u.heap_live_mbs / u.heap_total_mbs AS heap_utilization, g.gc_running_dur,
      g.gc_running_dur * 1.0 / b.gc_stats_window_dur AS gc_running_rate,
      d.disturbed_dur AS gc_during_android_startup_dur,
      (SELECT sum(dur) FROM _gc_app_start) AS total_android_startup_dur,
      d.disturbed_dur * 1.0 / (SELECT sum(dur) FROM _gc_app_start) AS gc_during_android_startup_rate
    FROM heap h
    LEFT JOIN gc g ON g.upid = h.upid
    LEFT JOIN disturbed d ON d.upid = h.upid
    LEFT JOIN used u ON u.upid = h.upid, _gc_stats_window b
  )
SELECT upid, ts, dur, heap_size_mbs, heap_size_mb, heap_allocated_mb, heap_allocation_rate,
       heap_live_mbs,
  heap_total_mbs, heap_utilization, gc_running_dur, gc_running_rate,
  heap_allocation_rate * heap_utilization / (gc_running_rate * (1 - heap_utilization))
    AS gc_running_efficiency,
  gc_during_android_startup_dur, total_android_startup_dur, gc_during_android_startup_rate,
  heap_allocation_rate
  * heap_utilization / (gc_during_android_startup_rate * (1 - heap_utilization))
    AS gc_during_android_startup_efficiency
FROM rate;

-- Cost and gain of the collections of all processes, in the time for which sizes of heaps are
-- known: one row.
CREATE PERFETTO TABLE _android_garbage_collection_stats(
  -- Start (ns).
  ts TIMESTAMP,
  -- Duration (ns).
  dur DURATION,
  -- Sizes of the heaps, summed over time (MB * s).
  heap_size_mbs DOUBLE,
  -- Average size of the heaps together (MB).
  heap_size_mb DOUBLE,
  -- Memory that was allocated (MB).
  heap_allocated_mb DOUBLE,
  -- Memory that was allocated in a second (MB/s).
  heap_allocation_rate DOUBLE,
  -- Memory that collections left, summed over the time since the collection before (MB * s).
  heap_live_mbs DOUBLE,
  -- Memory that collections found, summed in the same way (MB * s).
  heap_total_mbs DOUBLE,
  -- Share of the heaps that was in use: 0 to 1.
  heap_utilization DOUBLE,
  -- How long threads that collected ran (ns).
  gc_running_dur DURATION,
  -- How long threads that collected ran, as a share of the time.
  gc_running_rate DOUBLE,
  -- How well collections use the processor, however often they come. A larger number is better.
  gc_running_efficiency DOUBLE,
  -- How long collections went on while an app started (ns).
  gc_during_android_startup_dur DURATION,
  -- How long apps started (ns).
  total_android_startup_dur DURATION,
  -- Time that collections took while apps started, as a share of the time of the starts.
  gc_during_android_startup_rate DOUBLE,
  -- How little collections disturb starts, however often they come. A larger number is better.
  gc_during_android_startup_efficiency DOUBLE
) AS
WITH
  total AS (
    SELECT max(ts) AS ts, max(dur) AS dur, sum(heap_size_mbs) AS heap_size_mbs,
           sum(heap_size_mb) AS heap_size_mb,
      sum(heap_allocated_mb) AS heap_allocated_mb,
      sum(heap_allocation_rate) AS heap_allocation_rate,
      sum(heap_live_mbs) AS heap_live_mbs, sum(heap_total_mbs) AS heap_total_mbs,
      sum(heap_live_mbs) / sum(heap_total_mbs) AS heap_utilization,
      sum(gc_running_dur) AS gc_running_dur,
      sum(gc_running_rate) AS gc_running_rate,
      sum(gc_during_android_startup_dur) AS gc_during_android_startup_dur,
      max(total_android_startup_dur) AS total_android_startup_dur,
      sum(gc_during_android_startup_rate) AS gc_during_android_startup_rate
    FROM _android_garbage_collection_process_stats
  )
SELECT *,
  heap_allocation_rate * heap_utilization / (gc_running_rate * (1 - heap_utilization))
    AS gc_running_efficiency,
  heap_allocation_rate
  * heap_utilization / (gc_during_android_startup_rate * (1 - heap_utilization))
    AS gc_during_android_startup_efficiency
FROM total;
