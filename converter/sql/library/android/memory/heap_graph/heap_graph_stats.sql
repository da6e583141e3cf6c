-- SPDX-License-Identifier: Apache-2.0
--
-- Dumps of Java heaps in sum, with the memory and the score of their process.

INCLUDE PERFETTO MODULE android.memory.dmabuf_spans;
INCLUDE PERFETTO MODULE android.memory.heap_graph.oome;
INCLUDE PERFETTO MODULE android.oom_adjuster;
INCLUDE PERFETTO MODULE linux.memory.process;

-- The value of a process at a time. A reading up to 500 ms later counts instead if it is nearer
-- than the start of the span that contains the time.
CREATE PERFETTO MACRO _closest_value(upid Expr, ts Expr, t TableOrSubquery, value ColumnName)
RETURNS Expr AS (
  SELECT near.found
  FROM (
    SELECT $value AS found, abs(ts - $ts) AS distance FROM $t
    WHERE upid = $upid AND iif(ts > $ts, ts <= $ts + 500000000, ts + dur >= $ts)
  ) AS near
  ORDER BY near.distance LIMIT 1
);

-- Dumps of Java heaps, a row for each.
CREATE PERFETTO TABLE android_heap_graph_stats(
  -- Process.
  upid JOINID(process.id),
  -- Time of the dump (ns).
  graph_sample_ts TIMESTAMP,
  -- How long the process had lived (ns).
  process_uptime DURATION,
  -- Size of all objects (bytes).
  total_heap_size LONG,
  -- Native memory of all objects (bytes).
  total_native_alloc_registry_size LONG,
  -- All objects.
  total_obj_count LONG,
  -- Size of reachable objects (bytes).
  reachable_heap_size LONG,
  -- Native memory of reachable objects (bytes).
  reachable_native_alloc_registry_size LONG,
  -- Reachable objects.
  reachable_obj_count LONG,
  -- Score of the process at that time, see android_oom_adj_intervals.
  oom_score_adj LONG,
  -- Anonymous memory of the process at that time, resident or in swap (bytes).
  anon_rss_and_swap_size LONG,
  -- Memory of the process in shared buffers (bytes).
  dmabuf_rss_size LONG,
  -- Memory that the runtime has allocated by its own count (bytes).
  art_bytes_allocated LONG,
  -- Whether an OutOfMemoryError caused the dump.
  is_out_of_memory_error BOOL,
  -- Size of the allocation that failed (bytes).
  oome_failing_allocation_size LONG,
  -- Memory that the heap still had (bytes).
  oome_remaining_art_free_bytes LONG
) AS
WITH
  dump AS (
    SELECT upid, graph_sample_ts, sum(self_size) AS total_heap_size,
      sum(native_size) AS total_native_alloc_registry_size, count(*) AS total_obj_count,
      ifnull(sum(self_size) FILTER (WHERE reachable), 0) AS reachable_heap_size,
      ifnull(sum(native_size) FILTER (WHERE reachable), 0) AS reachable_native_alloc_registry_size,
      count(*) FILTER (WHERE reachable) AS reachable_obj_count
    FROM heap_graph_object GROUP BY upid, graph_sample_ts
  )
SELECT d.upid, d.graph_sample_ts, d.graph_sample_ts - p.start_ts AS process_uptime,
       d.total_heap_size,
  d.total_native_alloc_registry_size, d.total_obj_count, d.reachable_heap_size,
  d.reachable_native_alloc_registry_size, d.reachable_obj_count,
  _closest_value!(d.upid, d.graph_sample_ts, android_oom_adj_intervals, score) AS oom_score_adj,
  _closest_value!(d.upid, d.graph_sample_ts, memory_rss_and_swap_per_process, anon_rss_and_swap)
    AS anon_rss_and_swap_size,
  _closest_value!(d.upid, d.graph_sample_ts, _dmabuf_spans, dmabuf_rss) AS dmabuf_rss_size,
  g.heap_size AS art_bytes_allocated,
  g.dump_reason = 'OOME' OR (SELECT str_value FROM metadata WHERE name = 'trace_trigger' LIMIT 1)
    = 'com.android.telemetry.art-outofmemory' AS is_out_of_memory_error,
  e.allocation_size_bytes AS oome_failing_allocation_size,
  e.free_bytes_until_oom AS oome_remaining_art_free_bytes
FROM dump d
JOIN process p ON p.upid = d.upid
LEFT JOIN heap_graph g ON g.upid = d.upid AND g.ts = d.graph_sample_ts
LEFT JOIN android_heap_graph_java_oome_details e ON e.heap_graph_id = g.id
ORDER BY d.upid, d.graph_sample_ts;
