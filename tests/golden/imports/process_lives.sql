SELECT p.upid, p.pid, p.name, p.cmdline, p.start_ts, p.end_ts, p.parent_upid, p.uid FROM process p;

SELECT utid, tid, name, start_ts, end_ts, upid, is_main_thread FROM thread;

SELECT s.ts, s.dur, s.name, tt.utid, pt.upid FROM slice s
LEFT JOIN thread_track tt ON tt.id = s.track_id LEFT JOIN process_track pt ON pt.id = s.track_id;

SELECT ts, dur, cpu, utid, end_state, priority FROM sched_slice;

SELECT ts, dur, utid, state, io_wait, blocked_function, waker_utid FROM thread_state
ORDER BY ts, utid;

SELECT ts, upid, value FROM counter c JOIN process_counter_track t ON t.id = c.track_id;

SELECT ts, name, utid FROM ftrace_event ORDER BY ts;
