SELECT s.id, s.ts, s.dur, s.category, s.value, t.name, t.type FROM state s
JOIN track t ON t.id = s.track_id ORDER BY s.id;
SELECT s.id, a.key, a.display_value FROM state s JOIN args a USING (arg_set_id) ORDER BY s.id, a.id;
SELECT t.name, (SELECT name FROM process WHERE upid = p.upid),
       (SELECT name FROM thread WHERE utid = h.utid), parent.name FROM state_track t
       LEFT JOIN process_state_track p USING (id) LEFT JOIN thread_state_track h USING (id)
       LEFT JOIN track parent ON parent.id = t.parent_id ORDER BY t.id;
SELECT count(*) FROM thread_track WHERE type LIKE '%state%' UNION ALL SELECT count(*)
FROM process_track WHERE type LIKE '%state%' UNION ALL SELECT count(*) FROM counter_track
WHERE type LIKE '%state%';
SELECT name, value FROM stats WHERE value AND (name LIKE 'track_event%' OR name LIKE 'track_desc%')
ORDER BY name;
SELECT start_ts, end_ts FROM trace_bounds;
