SELECT s.id, s.ts, s.cpu, t.tid, cpu_mode, unwind_error, callsite_id, perf_session_id
FROM perf_sample s LEFT JOIN thread t USING (utid);

SELECT s.id, s.ts, source, p.pid, t.tid, a.name, pa.name, e.ucpu, e.cpu_mode,
       callsite_id, session_id
FROM stack_sample s LEFT JOIN stack_sample_task_context c ON c.id = s.task_context_id
LEFT JOIN process p USING (upid) LEFT JOIN thread t ON t.utid = c.utid
LEFT JOIN stack_sample_async_context a ON a.id = c.async_context_id
LEFT JOIN stack_sample_async_context pa ON pa.id = a.parent_id
LEFT JOIN stack_sample_execution_context e ON e.id = s.execution_context_id;

SELECT * FROM stack_sample_session;

SELECT c.ts, t.name, t.unit, c.value, s.ts AS sample FROM counter c
JOIN counter_track t ON t.id = c.track_id
LEFT JOIN stack_sample_counter sc ON sc.id = c.id
LEFT JOIN stack_sample s ON s.id = sc.stack_sample_id;

SELECT name, type, unit, session_id, cpu, is_timebase FROM stack_sample_counter_track
ORDER BY session_id, name, cpu;

SELECT c.id, c.depth, c.parent_id, f.name, f.deobfuscated_name, f.type, f.rel_pc, f.symbol_set_id,
       m.name, m.build_id
FROM stack_profile_callsite c JOIN stack_profile_frame f ON f.id = c.frame_id
JOIN stack_profile_mapping m ON m.id = f.mapping;

SELECT * FROM stack_profile_symbol;

SELECT ts, path, path_trimmed, aggregate_count, is_deleted, size_kb, private_dirty_kb, rss_kb,
       proportional_resident_kb FROM profiler_smaps;

SELECT m.*, p.pid FROM malloc_arena m JOIN process p USING (upid);

SELECT * FROM package_list;

SELECT name, idx, value FROM stats
WHERE value
  AND (name LIKE 'perf%' OR name LIKE 'stackprofile%' OR name LIKE 'smaps%'
       OR name LIKE 'packages%') ORDER BY name, idx;
