SELECT tid, name, start_ts, end_ts, pid, is_main_thread, is_idle
FROM (SELECT t.*, pid FROM thread t LEFT JOIN process USING (upid)) ORDER BY tid, start_ts;
SELECT c.pid, c.name, c.cmdline, p.pid FROM process c
LEFT JOIN process p ON p.upid = c.parent_upid ORDER BY 1;
SELECT ts, dur, tid, end_state, priority, cpu FROM sched JOIN thread USING (utid) ORDER BY ts, cpu;
SELECT ts, dur, tid, state, cpu FROM thread_state JOIN thread USING (utid) ORDER BY ts, tid;
SELECT ts, value, t.name FROM counter c JOIN track t ON t.id = c.track_id ORDER BY ts;
SELECT name, value FROM stats WHERE name LIKE '%task_state%' AND value;
