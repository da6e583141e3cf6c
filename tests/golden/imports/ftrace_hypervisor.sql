SELECT s.ts, s.dur, s.category, s.name, t.type, t.name, t.cpu
FROM slice s JOIN cpu_track t ON t.id = s.track_id ORDER BY s.ts, t.cpu;
SELECT s.ts, a.key, a.value_type, a.int_value, a.string_value
FROM slice s JOIN args a ON a.arg_set_id = s.arg_set_id ORDER BY s.id, a.key;
