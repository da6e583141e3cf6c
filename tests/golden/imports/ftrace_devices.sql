SELECT ts, dur, depth, s.category, s.name, t.type, t.name,
       coalesce(th.name, p.name, c.cpu) AS of_what
FROM slice s JOIN track t ON t.id = s.track_id
LEFT JOIN thread_track tt ON tt.id = t.id LEFT JOIN thread th USING (utid)
LEFT JOIN process_track pt ON pt.id = t.id LEFT JOIN process p ON p.upid = pt.upid
LEFT JOIN cpu_track c ON c.id = t.id ORDER BY s.id;

SELECT s.name, a.key, a.flat_key, a.value_type, a.display_value
FROM slice s JOIN args a USING (arg_set_id) ORDER BY s.id, a.id;

SELECT c.ts, t.type, t.name, t.unit, p.name, th.tid, c.value
FROM counter c JOIN counter_track t ON t.id = c.track_id
LEFT JOIN process_counter_track pt ON pt.id = t.id LEFT JOIN process p USING (upid)
LEFT JOIN thread_counter_track tt ON tt.id = t.id LEFT JOIN thread th USING (utid) ORDER BY c.id;

SELECT t.type, t.name, a.key, a.value_type, a.display_value
FROM track t JOIN args a ON a.arg_set_id = t.dimension_arg_set_id ORDER BY t.id, a.id;
