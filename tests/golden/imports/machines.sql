SELECT id, raw_id, name, release, arch, num_cpus FROM machine ORDER BY id;
SELECT trace_id, machine_id FROM trace_machine ORDER BY machine_id;
SELECT machine_id, pid, name, uid FROM process ORDER BY machine_id, pid;
SELECT t.machine_id, tid, t.name, is_main_thread, is_idle, pid FROM thread t
LEFT JOIN process USING (upid) ORDER BY t.machine_id, tid;
SELECT id, cpu, machine_id, processor, capacity FROM cpu ORDER BY id;
SELECT s.ts, s.dur, t.machine_id, tid, end_state, ucpu, cpu FROM sched s JOIN thread t USING (utid)
ORDER BY s.ts;
SELECT s.ts, s.dur, machine_id, tid, state, ucpu FROM thread_state s JOIN thread t USING (utid)
ORDER BY s.ts, machine_id, tid;
SELECT ts, e.name, ucpu, machine_id FROM ftrace_event e JOIN thread USING (utid) ORDER BY ts;
SELECT ts, dur, s.name, t.machine_id, p.machine_id FROM slice s JOIN track t ON t.id = s.track_id
LEFT JOIN process_track o ON o.id = t.id LEFT JOIN process p USING (upid) ORDER BY ts;
SELECT ts, value, t.name, t.machine_id FROM counter c JOIN track t ON t.id = c.track_id
ORDER BY ts, t.name;
SELECT name, machine_id, int_value, str_value FROM metadata
WHERE name LIKE 'system_%' OR name LIKE 'ftrace%' ORDER BY 2, 1;
SELECT ts, clock_id, clock_value, snapshot_id, machine_id FROM clock_snapshot
ORDER BY snapshot_id, clock_id, machine_id;
SELECT count(*) FROM flow;
