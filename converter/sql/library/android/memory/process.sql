-- SPDX-License-Identifier: Apache-2.0
--
-- Memory of processes beside the score by which Android's memory killer chooses.

INCLUDE PERFETTO MODULE android.oom_adjuster;
INCLUDE PERFETTO MODULE linux.memory.process;

CREATE VIRTUAL TABLE _oom_score_and_memory USING SPAN_OUTER_JOIN(
  android_oom_adj_intervals PARTITIONED upid,
  _memory_rss_and_swap_per_process_table PARTITIONED upid);

-- Score and memory of each process, one row for each period between two readings. Sums need
-- anonymous and file memory; shared memory and swap count as 0 until they are read.
CREATE PERFETTO TABLE memory_oom_score_with_rss_and_swap_per_process(
  -- Start (ns).
  ts TIMESTAMP,
  -- Until the score changes or memory is read again (ns).
  dur DURATION,
  -- Score, see android_oom_adj_intervals.
  score LONG,
  -- Group of the score.
  bucket STRING,
  -- Process.
  upid JOINID(process.id),
  -- Name of the process, while it has a score.
  process_name STRING,
  -- Process id.
  pid LONG,
  -- Slice of the system server's update of scores.
  oom_adj_id JOINID(slice.id),
  -- Start of the update (ns).
  oom_adj_ts TIMESTAMP,
  -- How long the update took (ns).
  oom_adj_dur DURATION,
  -- Track of the update's slice.
  oom_adj_track_id JOINID(track.id),
  -- Thread that made the update.
  oom_adj_thread_name STRING,
  -- Why the scores were computed anew.
  oom_adj_reason STRING,
  -- Name of the slice around the update.
  oom_adj_trigger STRING,
  -- Resident anonymous memory (bytes).
  anon_rss LONG,
  -- Resident memory of files (bytes).
  file_rss LONG,
  -- Resident shared memory (bytes).
  shmem_rss LONG,
  -- Resident memory: anonymous, files and shared (bytes).
  rss LONG,
  -- Memory in swap (bytes).
  swap LONG,
  -- Anonymous memory, resident or in swap (bytes).
  anon_rss_and_swap LONG,
  -- Resident memory and swap (bytes).
  rss_and_swap LONG
) AS
SELECT m.ts, m.dur, m.score, m.bucket, m.upid, m.process_name, p.pid, m.oom_adj_id, m.oom_adj_ts,
  m.oom_adj_dur, m.oom_adj_track_id, m.oom_adj_thread_name, m.oom_adj_reason, m.oom_adj_trigger,
  m.anon_rss, m.file_rss, m.shmem_rss, m.anon_rss + m.file_rss + ifnull(m.shmem_rss, 0) AS rss,
  m.swap, m.anon_rss + ifnull(m.swap, 0) AS anon_rss_and_swap,
  m.anon_rss + m.file_rss + ifnull(m.shmem_rss, 0) + ifnull(m.swap, 0) AS rss_and_swap
FROM _oom_score_and_memory m JOIN process p ON p.upid = m.upid;
