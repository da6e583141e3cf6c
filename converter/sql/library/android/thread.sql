-- SPDX-License-Identifier: Apache-2.0
--
-- Threads of apps: what their names have in common, and processes that make very many.

-- The first word of a thread's name, without numbers: "RenderThread-1[12]" is "RenderThread",
-- "binder:5543_E" is "binder", and a kernel worker is "kworker".
CREATE PERFETTO FUNCTION android_standardize_thread_name(
  -- Name of the thread.
  thread_name STRING
)
-- Common part of the names of such threads.
RETURNS STRING AS
SELECT iif($thread_name GLOB 'kworker/*', 'kworker',
  __intrinsic_strip_hex(
    str_split(str_split(str_split(str_split($thread_name, '-', 0), '[', 0), ':', 0), ' ', 0), 1));

-- Threads that began in a process: upid, process_name, name (standardized), start_ts (ns). With a
-- limit (ns), only threads that lived no longer.
CREATE PERFETTO FUNCTION _android_thread_begins(
  -- Limit (ns), or NULL.
  max_dur DOUBLE
)
RETURNS TABLE(
  -- Process.
  upid LONG,
  -- Name of the process.
  process_name STRING,
  -- Common part of the thread's name.
  name STRING,
  -- Start (ns).
  start_ts TIMESTAMP
) AS
SELECT p.upid, p.name AS process_name, android_standardize_thread_name(t.name) AS name, t.start_ts
FROM thread t JOIN process p USING (upid)
WHERE $max_dur IS NULL OR ($max_dur AND t.end_ts - t.start_ts <= $max_dur);

-- The largest number of threads of a kind that a process began within a time.
CREATE PERFETTO FUNCTION _android_thread_creation_spam_per_thread(
  -- Only threads that lived no longer than this (ns); NULL: all.
  max_thread_dur DOUBLE,
  -- The time (ns), counted from the start of each thread.
  sliding_window_dur DOUBLE
)
RETURNS TABLE(
  -- Name of the process.
  process_name STRING,
  -- Process.
  upid JOINID(process.id),
  -- Common part of the names of the threads.
  thread_name_prefix STRING,
  -- The most threads within the time.
  max_count_per_sec LONG
) AS
WITH counted AS (
  SELECT *, count(start_ts) OVER (PARTITION BY upid, name ORDER BY start_ts RANGE BETWEEN
    CURRENT ROW AND CAST($sliding_window_dur AS INTEGER) FOLLOWING) AS n
  FROM _android_thread_begins($max_thread_dur)
)
SELECT process_name, upid, name AS thread_name_prefix, max(n) AS max_count_per_sec
FROM counted GROUP BY upid, name HAVING max(n) > 0 ORDER BY 4 DESC;

-- The largest number of threads that a process began within a time.
CREATE PERFETTO FUNCTION _android_thread_creation_spam_per_process(
  -- Only threads that lived no longer than this (ns); NULL: all.
  max_thread_dur DOUBLE,
  -- The time (ns), counted from the start of each thread.
  sliding_window_dur DOUBLE
)
RETURNS TABLE(
  -- Name of the process.
  process_name STRING,
  -- Process.
  upid JOINID(process.id),
  -- The most threads within the time.
  max_count_per_sec LONG
) AS
WITH counted AS (
  SELECT *, count(start_ts) OVER (PARTITION BY upid ORDER BY start_ts RANGE BETWEEN CURRENT ROW AND
    CAST($sliding_window_dur AS INTEGER) FOLLOWING) AS n
  FROM _android_thread_begins($max_thread_dur)
)
SELECT process_name, upid, max(n) AS max_count_per_sec
FROM counted GROUP BY upid HAVING max(n) > 0 ORDER BY 3 DESC;
