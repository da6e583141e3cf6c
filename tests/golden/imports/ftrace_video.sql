SELECT s.ts, s.dur, s.category, s.name, t.type, t.name,
       (SELECT group_concat(key || '=' || coalesce(display_value, 'NULL'), ' ') FROM args a
        WHERE a.arg_set_id = s.arg_set_id) FROM slice s JOIN track t ON t.id = s.track_id
        ORDER BY s.ts;
SELECT o.ts, i.ts FROM flow f JOIN slice o ON o.id = f.slice_out JOIN slice i ON i.id = f.slice_in;
