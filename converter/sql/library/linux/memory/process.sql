-- SPDX-License-Identifier: Apache-2.0
--
-- Memory of processes over time: resident by kind, and swapped.

INCLUDE PERFETTO MODULE linux.memory.general;

CREATE PERFETTO VIEW _memory_anon AS
SELECT ts, dur, upid, value AS anon_value FROM _all_counters_per_process
WHERE name = 'mem.rss.anon';
CREATE PERFETTO VIEW _memory_file AS
SELECT ts, dur, upid, value AS file_value FROM _all_counters_per_process
WHERE name = 'mem.rss.file';
CREATE PERFETTO VIEW _memory_shmem AS
SELECT ts, dur, upid, value AS shmem_value FROM _all_counters_per_process
WHERE name = 'mem.rss.shmem';
CREATE PERFETTO VIEW _memory_swap AS
SELECT ts, dur, upid, value AS swap_value FROM _all_counters_per_process WHERE name = 'mem.swap';

CREATE VIRTUAL TABLE _memory_private USING
  SPAN_OUTER_JOIN(_memory_anon PARTITIONED upid, _memory_swap PARTITIONED upid);
CREATE VIRTUAL TABLE _memory_shared USING
  SPAN_OUTER_JOIN(_memory_file PARTITIONED upid, _memory_shmem PARTITIONED upid);
CREATE VIRTUAL TABLE _memory_all USING
  SPAN_OUTER_JOIN(_memory_private PARTITIONED upid, _memory_shared PARTITIONED upid);

-- The four counters side by side, one row for each period between two readings: upid, ts and dur
-- (ns), anon_rss, file_rss, shmem_rss and swap (bytes), each NULL until its first reading.
CREATE PERFETTO TABLE _memory_rss_and_swap_per_process_table AS
SELECT ts, dur, upid, CAST(anon_value AS INTEGER) AS anon_rss,
       CAST(file_value AS INTEGER) AS file_rss,
  CAST(shmem_value AS INTEGER) AS shmem_rss, CAST(swap_value AS INTEGER) AS swap
FROM _memory_all;

CREATE PERFETTO INDEX _memory_rss_and_swap_upid ON _memory_rss_and_swap_per_process_table(upid, ts);

-- Memory of each process over time. Sums need anonymous and file memory, which every process has;
-- shared memory and swap count as 0 until they are read.
CREATE PERFETTO VIEW memory_rss_and_swap_per_process(
  -- Start (ns).
  ts TIMESTAMP,
  -- Until the next reading of one of the counters (ns).
  dur DURATION,
  -- Process.
  upid JOINID(process.id),
  -- Process id.
  pid LONG,
  -- Name of the process.
  process_name STRING,
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
SELECT m.ts, m.dur, m.upid, p.pid, p.name AS process_name, m.anon_rss, m.file_rss, m.shmem_rss,
  m.anon_rss + m.file_rss + ifnull(m.shmem_rss, 0) AS rss, m.swap,
  m.anon_rss + ifnull(m.swap, 0) AS anon_rss_and_swap,
  m.anon_rss + m.file_rss + ifnull(m.shmem_rss, 0) + ifnull(m.swap, 0) AS rss_and_swap
FROM _memory_rss_and_swap_per_process_table m JOIN process p ON p.upid = m.upid;
