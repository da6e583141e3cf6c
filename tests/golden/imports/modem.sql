SELECT s.ts, s.dur, s.name, t.type, t.name,
       (SELECT group_concat(key || '=' || display_value, ' ') FROM args a
        WHERE a.arg_set_id = s.arg_set_id) FROM slice s JOIN track t ON t.id = s.track_id
        ORDER BY s.ts;
SELECT name, value FROM stats WHERE value > 0 AND (name GLOB '*modem*') ORDER BY name;
