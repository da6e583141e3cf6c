-- SPDX-License-Identifier: Apache-2.0
--
-- The most memory that each process had resident so far.

INCLUDE PERFETTO MODULE counters.intervals;
INCLUDE PERFETTO MODULE linux.memory.process;

-- The most memory over time: upid, ts and dur (ns), rss_high_watermark (bytes).
CREATE PERFETTO TABLE _memory_rss_high_watermark_per_process_table AS
SELECT i.ts, i.dur, i.track_id AS upid, CAST(i.value AS INTEGER) AS rss_high_watermark
FROM counter_leading_intervals!((
  SELECT 0 AS id, ts, upid AS track_id,
    max(ifnull(anon_rss, 0) + ifnull(file_rss, 0) + ifnull(shmem_rss, 0)) OVER (
      PARTITION BY upid ORDER BY ts) AS value
  FROM _memory_rss_and_swap_per_process_table
)) i;

-- The most memory that each process had resident until then.
CREATE PERFETTO VIEW memory_rss_high_watermark_per_process(
  -- Start (ns).
  ts TIMESTAMP,
  -- Until the next row of the process, or the end of the trace (ns).
  dur DURATION,
  -- Process.
  upid JOINID(process.id),
  -- Process id.
  pid LONG,
  -- Name of the process.
  process_name STRING,
  -- Resident memory: anonymous, files and shared (bytes).
  rss_high_watermark LONG
) AS
SELECT w.ts, w.dur, w.upid, p.pid, p.name AS process_name, w.rss_high_watermark
FROM _memory_rss_high_watermark_per_process_table w JOIN process p ON p.upid = w.upid;
