SELECT s.id, s.ts, s.dur, t.type, t.name, s.value,
       (SELECT group_concat(key || '=' || display_value, ' ') FROM args a
        WHERE a.arg_set_id = s.arg_set_id) FROM state s JOIN state_track t ON t.id = s.track_id
        ORDER BY s.ts, s.id;
SELECT name, value FROM stats WHERE name = 'concurrent_session_event_unknown_state';
