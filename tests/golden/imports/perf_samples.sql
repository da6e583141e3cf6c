SELECT s.ts, t.tid, p.pid, s.cpu, s.cpu_mode, s.callsite_id, s.unwind_error, s.perf_session_id
FROM perf_sample s LEFT JOIN thread t USING (utid) LEFT JOIN process p USING (upid);

SELECT c.id, c.depth, f.name, f.rel_pc, m.name, m.build_id FROM stack_profile_callsite c
JOIN stack_profile_frame f ON f.id = c.frame_id JOIN stack_profile_mapping m ON m.id = f.mapping;

SELECT c.ts, t.cpu, t.name, t.unit, c.value FROM counter c
JOIN cpu_counter_track t ON t.id = c.track_id ORDER BY c.id;

SELECT t.cpu, t.name, a.key, a.display_value FROM cpu_counter_track t
JOIN args a ON a.arg_set_id = t.source_arg_set_id ORDER BY t.id;

SELECT id, source, timebase_unit FROM stack_sample_session;

SELECT name, idx, value FROM stats WHERE value AND (name LIKE 'perf%' OR name LIKE 'stackprofile%')
ORDER BY name, idx;
