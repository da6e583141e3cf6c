SELECT s.ts, s.name, t.name, t.type, p.name, th.tid, pr.pid FROM slice s
JOIN track t ON t.id = s.track_id LEFT JOIN track p ON p.id = t.parent_id
LEFT JOIN thread_track tt ON tt.id = t.id LEFT JOIN thread th USING (utid)
LEFT JOIN process pr ON pr.upid = th.upid ORDER BY s.id;
SELECT c.ts, c.value, t.name, extract.display_value FROM counter c
JOIN counter_track t ON t.id = c.track_id
JOIN args extract ON extract.arg_set_id = t.source_arg_set_id AND extract.key = 'trace_id';
SELECT t.name, a.key, a.display_value FROM track t JOIN args a ON a.arg_set_id = t.source_arg_set_id
WHERE a.key IN ('description', 'trace_id') ORDER BY t.id, a.id;
SELECT pid, name FROM process ORDER BY upid;
SELECT p.pid, a.flat_key, a.key, a.value_type, a.display_value FROM process p
JOIN args a USING (arg_set_id) ORDER BY upid, a.id;
SELECT tid, t.name, p.pid FROM thread t LEFT JOIN process p USING (upid) ORDER BY utid;
SELECT tid, a.key, a.display_value FROM thread t JOIN args a USING (arg_set_id);
SELECT name, value FROM stats WHERE value AND name LIKE 'track_%' ORDER BY name;
