SELECT p.upid, p.pid, p.name, p.cmdline, p.start_ts, p.end_ts, pp.name AS parent, p.uid,
       p.android_appid FROM process p LEFT JOIN process pp ON pp.upid = p.parent_upid;

SELECT utid, tid, t.name, t.start_ts, t.end_ts, p.pid, is_main_thread, is_idle FROM thread t
LEFT JOIN process p USING (upid);

SELECT s.ts, s.name, t.utid FROM slice s JOIN thread_track t ON t.id = s.track_id;

SELECT ts, dur, t.name, end_state, priority FROM sched_slice JOIN thread t USING (utid);

SELECT ts, dur, t.name, state, waker_utid FROM thread_state JOIN thread t USING (utid);

SELECT c.ts, t.type, t.name, c.value FROM counter c
JOIN process_counter_track t ON t.id = c.track_id WHERE t.type = 'chrome_process_stats';
