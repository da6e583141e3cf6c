SELECT s.ts, s.dur, s.depth, t.type, t.name, s.name, (SELECT group_concat(key || '=' || display_value, ' ') FROM args a WHERE a.arg_set_id = s.arg_set_id) FROM slice s JOIN track t ON t.id = s.track_id ORDER BY s.ts, s.id;
SELECT name, value FROM stats WHERE name = 'concurrent_session_event_unknown_state';
