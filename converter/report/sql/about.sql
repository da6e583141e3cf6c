-- SPDX-License-Identifier: Apache-2.0
--
-- Key figures, and facts about the trace itself.

-- @setup
-- The kinds of work whose event the config of a trace had on. A trace without such work says that
-- there was none, unless something was lost.
CREATE TEMP VIEW IF NOT EXISTS report_watched AS
WITH event(kind, subsystem, name) AS (VALUES
  ('direct reclaim', 'vmscan', 'mm_vmscan_direct_reclaim_begin'),
  ('memcg reclaim', 'vmscan', 'mm_vmscan_memcg_reclaim_begin'),
  ('kswapd', 'vmscan', 'mm_vmscan_kswapd_wake'),
  ('compaction', 'compaction', 'mm_compaction_begin'),
  ('kill', 'oom', 'mark_victim'))
SELECT t.id AS trace_id, e.kind, EXISTS (SELECT 1 FROM stats s
    WHERE s.name IN ('ftrace_setup_errors', 'ftrace_cpu_has_data_loss',
        'traced_buf_chunks_overwritten', 'traced_buf_chunks_discarded')
      AND s.trace_id = t.id AND s.value > 0) AS has_losses
FROM trace t JOIN event e
WHERE EXISTS (SELECT 1 FROM metadata c
    WHERE c.name = 'trace_config_pbtxt' AND coalesce(c.trace_id, t.id) = t.id
      AND (instr(c.str_value, 'ftrace_events: "' || subsystem || '/' || e.name || '"')
        OR instr(c.str_value, 'ftrace_events: "' || e.name || '"')
        OR instr(c.str_value, 'ftrace_events: "' || subsystem || '/*"')))
  AND EXISTS (SELECT 1 FROM stats s
    WHERE s.name = 'ftrace_cpu_entries_begin' AND s.trace_id = t.id);

-- @about
SELECT path, uuid, size_bytes, n_packets, recorded_end_ts - recorded_ts AS dur_ns,
  iif(realtime_offset IS NULL, NULL, recorded_ts + realtime_offset - ts_shift) AS start_unix_ns,
  (SELECT count(*) FROM trace_machine WHERE trace_id = :trace) AS machines
FROM trace WHERE id = :trace;

-- @machine
-- The machine, as key and value.
SELECT name AS key, coalesce(str_value, int_value) AS value FROM metadata
WHERE coalesce(machine_id, :machine) = :machine AND coalesce(trace_id, :trace) = :trace
  AND name IN (
  'system_name', 'system_release', 'system_version', 'system_machine', 'system_ram_bytes',
  'android_build_fingerprint', 'trace_uuid', 'unique_session_name', 'trace_trigger',
  'tracing_service_version', 'timezone_off_mins')
UNION ALL
SELECT 'processors', num_cpus FROM machine WHERE id = :machine AND num_cpus > 0;

-- @config
SELECT str_value AS text FROM metadata
WHERE name = 'trace_config_pbtxt' AND coalesce(trace_id, :trace) = :trace LIMIT 1;

-- @losses
-- Statistics about the losses of recording and conversion.
SELECT name, idx, severity, sum(value) AS value, description FROM stats
WHERE trace_id = :trace AND value != 0 AND severity != 'info'
GROUP BY name, idx, severity ORDER BY severity, value DESC LIMIT 100;

-- @figures
-- Key figures. A figure has the same name in each trace, so that two traces can be compared.
WITH
psi AS (
  SELECT t.name, max(c.value) - min(c.value) AS ns FROM counter_track t
  JOIN counter c ON c.track_id = t.id
  WHERE t.name GLOB 'psi.*' AND t.type = 'psi' AND t.machine_id = :machine GROUP BY t.name),
vmstat AS (
  SELECT t.name, max(c.value) - min(c.value) AS n, min(c.value) AS least FROM counter_track t
  JOIN counter c ON c.track_id = t.id WHERE t.type = 'vmstat' AND t.machine_id = :machine
    AND (t.name GLOB 'workingset_refault*'
      OR t.name IN ('pgmajfault', 'pgfault', 'pswpin', 'pswpout', 'nr_free_pages', 'oom_kill'))
  GROUP BY t.name),
reclaim AS (
  SELECT r.quantity, r.has_memcg, max(c.value) - min(c.value) AS n FROM reclaim_counter r
  JOIN counter c USING (track_id) WHERE r.in_total AND r.machine_id = :machine
  GROUP BY r.track_id),
-- Kinds of which the trace has nothing although their events were on.
absent AS (
  SELECT kind FROM report_watched w
  WHERE trace_id = :trace AND NOT has_losses AND kind != 'kill'
    AND NOT EXISTS (SELECT 1 FROM report_episode r
      WHERE r.kind = w.kind AND r.machine_id = :machine)),
work AS (
  SELECT kind, count(*) AS n, sum(iif(is_open, NULL, dur)) AS ns,
    max(iif(is_open, NULL, dur)) AS longest
  FROM report_episode WHERE machine_id = :machine GROUP BY kind
  UNION ALL
  SELECT kind, 0, 0, NULL FROM absent),
figure(place, name, value, unit, worse) AS (
  SELECT 1, 'duration', :end - :start, 'ns', 0 WHERE :trace >= 0 UNION ALL
  SELECT 2, 'some task stalled for memory', ns, 'ns', 1 FROM psi WHERE name = 'psi.mem.some'
  UNION ALL
  SELECT 3, 'all tasks stalled for memory', ns, 'ns', 1 FROM psi WHERE name = 'psi.mem.full'
  UNION ALL
  SELECT 4, 'least free memory', least * :page, 'bytes', -1 FROM vmstat
  WHERE name = 'nr_free_pages' UNION ALL
  SELECT 5, kind, n, 'times', 1 FROM work WHERE kind != 'kswapd' UNION ALL
  SELECT 6, kind || ', total time', ns, 'ns', 1 FROM work UNION ALL
  SELECT 7, kind || ', longest', longest, 'ns', 1 FROM work WHERE kind != 'kswapd' UNION ALL
  SELECT iif(quantity = 'scanned', 8, 9),
    quantity || iif(has_memcg, '', ' outside memory cgroups'), sum(n) * :page, 'bytes', 1
  FROM reclaim GROUP BY quantity UNION ALL
  SELECT 10, 'evicted pages that came back', sum(n) * :page, 'bytes', 1 FROM vmstat
  WHERE name GLOB 'workingset_refault*' HAVING count(*) UNION ALL
  SELECT 11, 'major faults', n, 'times', 1 FROM vmstat WHERE name = 'pgmajfault' UNION ALL
  SELECT 12, 'swapped out', n * :page, 'bytes', 1 FROM vmstat WHERE name = 'pswpout' UNION ALL
  SELECT 13, 'swapped in', n * :page, 'bytes', 1 FROM vmstat WHERE name = 'pswpin' UNION ALL
  SELECT 14, 'processes killed by the kernel', n, 'times', 1 FROM vmstat WHERE name = 'oom_kill')
SELECT name, value, unit, worse FROM figure WHERE value IS NOT NULL ORDER BY place, name;
