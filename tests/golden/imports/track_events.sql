SELECT s.ts, s.dur, s.depth, s.category, s.name, t.type, t.name, th.name, p.name,
       s.thread_ts, s.thread_dur
FROM slice s JOIN track t ON t.id = s.track_id
LEFT JOIN thread_track tt ON tt.id = t.id LEFT JOIN thread th USING (utid)
LEFT JOIN process_track pt ON pt.id = t.id LEFT JOIN process p ON p.upid = pt.upid ORDER BY s.id;

SELECT s.name, a.key, a.flat_key, a.value_type, a.display_value
FROM slice s JOIN args a USING (arg_set_id) ORDER BY s.id, a.id;

SELECT c.ts, t.type, t.name, t.unit, c.value FROM counter c
JOIN counter_track t ON t.id = c.track_id ORDER BY c.id;

SELECT t.type, t.name, p.name AS parent, a.key, a.display_value
FROM track t LEFT JOIN track p ON p.id = t.parent_id
JOIN args a ON a.arg_set_id = t.source_arg_set_id
ORDER BY t.id, a.id;

SELECT a.name, b.name, trace_id FROM flow JOIN slice a ON a.id = slice_out
JOIN slice b ON b.id = slice_in;

SELECT l.ts, t.name, prio, tag, msg FROM android_logs l JOIN thread t USING (utid);

SELECT name, value FROM stats
WHERE value AND (name LIKE 'track_%' OR name LIKE 'mmsql%' OR name LIKE 'unknown%')
ORDER BY name;
SELECT pid, name FROM process WHERE pid = 12;
