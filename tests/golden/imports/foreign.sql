SELECT id, upid, tid, name FROM thread;
SELECT id, pid, name, parent_upid FROM process;
SELECT id, name, build_id, exact_offset, start, end FROM stack_profile_mapping;
SELECT s.ts, s.source, c.depth, f.name, m.name, printf('%x', f.rel_pc) FROM _profiler_sample s
JOIN stack_profile_callsite c ON c.id = s.callsite_id
JOIN stack_profile_frame f ON f.id = c.frame_id JOIN stack_profile_mapping m ON m.id = f.mapping;
WITH RECURSIVE chain(ts, id) AS (SELECT ts, callsite_id FROM _profiler_sample WHERE ts = 110
                                 UNION ALL SELECT ts, parent_id FROM chain
                                 JOIN stack_profile_callsite c USING (id))
                                 SELECT c.depth, m.name, printf('%x', f.rel_pc) FROM chain
                                 JOIN stack_profile_callsite c USING (id)
                                 JOIN stack_profile_frame f ON f.id = c.frame_id
                                 JOIN stack_profile_mapping m ON m.id = f.mapping;
SELECT ts, utid, cpu, cpu_mode, callsite_id, perf_session_id FROM perf_sample;
SELECT * FROM perf_session;
SELECT * FROM stack_sample_session;
SELECT t.name, t.cpu, t.perf_session_id, t.is_timebase, c.ts, c.value FROM counter c
JOIN perf_counter_track t ON t.id = c.track_id;
SELECT name, idx, value FROM stats WHERE value > 0 AND (name GLOB '*perf*' OR name GLOB 'systrace*')
ORDER BY name, idx;
