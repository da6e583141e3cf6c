SELECT s.ts, s.dur, s.name, category, depth, thread_ts, thread_dur, t.type, t.name AS track
FROM slice s JOIN track t ON t.id = track_id ORDER BY s.ts, s.id;
SELECT s.name, flat_key, key, display_value FROM args JOIN slice s USING (arg_set_id)
ORDER BY s.id, key;
SELECT o.name AS slice_out, i.name AS slice_in FROM flow JOIN slice o ON o.id = slice_out
JOIN slice i ON i.id = slice_in;
SELECT f.id, flat_key, display_value FROM flow f LEFT JOIN args USING (arg_set_id)
ORDER BY f.id, key;
SELECT c.ts, c.value, t.name, t.type FROM counter c JOIN track t ON t.id = track_id;
SELECT ts, dur, state FROM thread_state;
SELECT ts, dur, ucpu FROM sched_slice;
SELECT p.pid, p.name, t.tid FROM thread t JOIN process p USING (upid) WHERE tid ORDER BY tid;
SELECT name, str_value, int_value FROM metadata WHERE name LIKE 'json%' ORDER BY name;
SELECT name, value FROM stats
WHERE value
  AND (name LIKE '%json%' OR name LIKE '%text%' OR name LIKE '%spill%' OR name LIKE 'flow%')
  ORDER BY name;
SELECT s.name, t.tid, t.name, p.name, t.is_idle FROM slice s JOIN thread_track r ON r.id = track_id
JOIN thread t USING (utid) JOIN process p USING (upid) WHERE p.pid = 0;
SELECT utid, name, is_idle FROM thread WHERE tid = 0;
