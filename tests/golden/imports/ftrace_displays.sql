SELECT s.ts, s.dur, t.type, t.name,
       (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
        WHERE a.arg_set_id = t.dimension_arg_set_id) AS what,
  s.name, (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
           WHERE a.arg_set_id = s.arg_set_id) AS more
FROM slice s JOIN track t ON t.id = s.track_id ORDER BY s.ts, s.id;

SELECT c.ts, t.type, t.name, c.value FROM counter c JOIN counter_track t ON t.id = c.track_id
ORDER BY c.ts;
