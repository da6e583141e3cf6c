SELECT s.ts, t.tid, t.name AS thread, p.pid, f.name, c.depth, process_priority
FROM cpu_profile_stack_sample s JOIN thread t USING (utid)
LEFT JOIN process p USING (upid) JOIN stack_profile_callsite c ON c.id = s.callsite_id
JOIN stack_profile_frame f ON f.id = c.frame_id;

SELECT s.ts, s.source, p.pid, t.tid, s.execution_context_id, s.session_id FROM stack_sample s
JOIN stack_sample_task_context c ON c.id = s.task_context_id
JOIN process p USING (upid) JOIN thread t ON t.utid = c.utid;

SELECT s.ts, s.dur, s.name, t.tid, s.thread_ts, s.thread_dur, s.thread_instruction_count,
       s.thread_instruction_delta FROM slice s JOIN thread_track k ON k.id = s.track_id
       JOIN thread t USING (utid);

SELECT name, idx, severity, value FROM stats
WHERE value AND (name LIKE '%profile%' OR name LIKE 'thread_%' OR name LIKE 'track_event%')
ORDER BY name, idx;
