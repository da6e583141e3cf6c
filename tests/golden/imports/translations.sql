SELECT s.ts, s.dur, s.name, t.name FROM slice s JOIN track t ON t.id = s.track_id ORDER BY s.ts;
SELECT c.ts, t.name FROM counter c JOIN track t ON t.id = c.track_id;
SELECT s.ts, a.key, a.value_type, a.display_value FROM slice s JOIN args a USING (arg_set_id)
WHERE a.key LIKE 'chrome%' ORDER BY s.ts, a.key;
