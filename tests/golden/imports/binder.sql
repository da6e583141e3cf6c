SELECT ts, dur, depth, category, s.name, t.name, t.tid FROM slice s
JOIN thread_track tt ON tt.id = s.track_id JOIN thread t USING (utid) ORDER BY ts, s.id;

SELECT o.ts, o.name, i.ts, i.name, f.trace_id FROM flow f JOIN slice o ON o.id = slice_out
JOIN slice i ON i.id = slice_in;

SELECT s.ts, s.name, a.key, a.value_type, a.display_value
FROM slice s JOIN args a USING (arg_set_id) ORDER BY s.ts, a.key;
