-- SPDX-License-Identifier: Apache-2.0
--
-- The report as text: a table for each dataset. The name of a dataset, with "_" as blanks, is the
-- title of its table. Tables without rows are left out. A value that is not known is "-".

-- @text_Key_figures
SELECT name AS figure, CASE unit
    WHEN 'ns' THEN printf('%,.1f ms', value / 1e6)
    WHEN 'bytes' THEN printf('%,.1f MiB', value / 1048576.0)
    ELSE printf('%,d', value) END AS value
FROM ({{figures}});

-- @text_Reclaim_and_compaction
SELECT replace(task, rtrim(task, replace(task, '/', '')), '') AS task, kind,
  printf('%,d', times) AS times,
  iif(total_ns IS NULL, '-', printf('%,.1f ms', total_ns / 1e6)) AS "in sum",
  iif(longest_ns IS NULL, '-', printf('%,.1f ms', longest_ns / 1e6)) AS longest,
  iif(at_us IS NULL, '-', printf('%.2f s', at_us / 1e6)) AS "longest at",
  iif(reclaimed_bytes IS NULL, '-', printf('%,.1f MiB', reclaimed_bytes / 1048576.0)) AS freed
FROM ({{reclaim_by_task}}) LIMIT 15;

-- @text_Killed_for_lack_of_memory
SELECT printf('%.2f s', t / 1e6) AS at,
  coalesce(replace(process, rtrim(process, replace(process, '/', '')), ''), '') AS process, pid,
  coalesce(wanted_by, '') AS "memory was wanted by"
FROM ({{kills}}) LIMIT 15;

-- @text_Largest_processes
SELECT replace(process, rtrim(process, replace(process, '/', '')), '') AS process,
  printf('%,.1f MiB', first_bytes / 1048576.0) AS "at first",
  printf('%,.1f MiB', peak_bytes / 1048576.0) AS "at its largest",
  printf('%,.1f MiB', last_bytes / 1048576.0) AS "at last"
FROM ({{process_table}}) LIMIT 12;

-- @text_Page_cache_of_files
SELECT file, printf('%,.1f MiB', size_bytes / 1048576.0) AS size,
  printf('%,.1f MiB', least_bytes / 1048576.0) AS "least resident",
  printf('%,.1f MiB', most_bytes / 1048576.0) AS most,
  printf('%,.1f MiB', last_bytes / 1048576.0) AS "at the end"
FROM ({{residency_table}}) LIMIT 15;

-- @text_Memory_that_functions_kept
SELECT h.process_name AS process, h.function,
  printf('%,.1f KiB', sum(h.self_bytes) / 1024.0) AS itself,
  printf('%,.1f KiB', sum(h.growth_bytes) / 1024.0) AS "with its callees"
FROM heap_growth h JOIN process p USING (upid) WHERE p.machine_id = :machine
GROUP BY h.upid, h.function HAVING sum(h.self_bytes) > 0 ORDER BY sum(h.self_bytes) DESC LIMIT 12;

-- @text_Functions_with_the_most_samples
WITH sample AS (
  SELECT s.callsite_id, coalesce((SELECT c.name FROM perf_counter_track c
    WHERE c.perf_session_id = s.session_id AND c.is_timebase LIMIT 1), s.source) AS event
  FROM _profiler_sample s JOIN thread t USING (utid)
  WHERE s.callsite_id IS NOT NULL AND t.machine_id = :machine),
leaf AS (
  SELECT s.event, coalesce(demangle(f.function), f.function,
    '[' || coalesce(nullif(f.mapping_name, ''), 'unknown') || ']') AS function, count(*) AS n
  FROM sample s JOIN stack_profile_callsite c ON c.id = s.callsite_id
  LEFT JOIN stack_frame f ON f.frame_id = c.frame_id AND f.inline_depth = 0 GROUP BY 1, 2),
ranked AS (
  SELECT *, sum(n) OVER (PARTITION BY event) AS whole,
    row_number() OVER (PARTITION BY event ORDER BY n DESC, function) AS place FROM leaf)
SELECT function, event, printf('%,d', n) AS samples, printf('%.1f %%', 100.0 * n / whole) AS share
FROM ranked WHERE place <= 10 ORDER BY whole DESC, event, place;

-- @text_Java_allocations_of_logs
SELECT method, printf('%,.1f KiB', sum(self_bytes) / 1024.0) AS itself,
  printf('%,.1f KiB', sum(total_bytes) / 1024.0) AS "with its callees",
  sum(total_samples) AS samples
FROM alloc_log_method GROUP BY 1 ORDER BY sum(self_bytes) DESC, 1 LIMIT 12;

-- @text_Losses
SELECT name, sum(value) AS value, description FROM ({{losses}}) GROUP BY name LIMIT 12;

-- @text_Machine
SELECT key, CAST(value AS TEXT) AS value FROM ({{machine}});
