SELECT s.name, tid, pid, thread.name FROM slice s JOIN thread_track t ON t.id = s.track_id
JOIN thread USING (utid) JOIN process USING (upid);

SELECT s.name, pid FROM slice s JOIN process_track t ON t.id = s.track_id JOIN process USING (upid);

SELECT pid, name, start_ts FROM process;

SELECT name, value FROM stats WHERE name = 'namespaced_thread_missing_process';
