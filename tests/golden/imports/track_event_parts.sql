SELECT a.name, b.name, trace_id,
       (SELECT group_concat(key || '=' || display_value, ' ') FROM args x
        WHERE x.arg_set_id = f.arg_set_id) FROM flow f JOIN slice a ON a.id = slice_out
        JOIN slice b ON b.id = slice_in ORDER BY f.id;
SELECT s.ts, s.dur, s.name, s.track_id FROM slice s WHERE category = 'a' ORDER BY s.id;
SELECT s.ts, a.key, a.display_value FROM slice s JOIN args a USING (arg_set_id) WHERE category = 'a'
ORDER BY s.id, a.id;
SELECT ts, value FROM counter ORDER BY ts;
SELECT s.name, t.name, f.name, e.name, weight FROM _track_event_callstacks c
JOIN slice s ON s.id = c.slice_id JOIN track t ON t.id = c.track_id
LEFT JOIN stack_profile_callsite x ON x.id = c.callsite_id
LEFT JOIN stack_profile_frame f ON f.id = x.frame_id
LEFT JOIN stack_profile_callsite y ON y.id = c.end_callsite_id
LEFT JOIN stack_profile_frame e ON e.id = y.frame_id ORDER BY c.id;
SELECT name, value FROM stats WHERE value
       AND (name LIKE 'track_event%' OR name LIKE 'flow_%' OR name LIKE 'streaming%') ORDER BY name;
SELECT ts, name FROM slice WHERE category = 'zero';
