SELECT s.ts, s.dur, t.type, coalesce(t.name, ''), h.tid, s.category, s.name, s.depth, s.thread_dur,
  (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
   WHERE a.arg_set_id = s.arg_set_id) AS more
FROM slice s JOIN track t ON t.id = s.track_id LEFT JOIN thread_track tt ON tt.id = t.id
LEFT JOIN thread h USING (utid) ORDER BY s.ts, s.id;

SELECT t.type, t.name, (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
                        WHERE a.arg_set_id = t.dimension_arg_set_id) AS what FROM track t
WHERE t.type <> 'thread_execution' ORDER BY 1, 2;

SELECT c.ts, t.name, c.value, (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
                               WHERE a.arg_set_id = c.arg_set_id) AS more
FROM counter c JOIN counter_track t ON t.id = c.track_id ORDER BY c.ts, t.name;

SELECT o.ts, o.name, i.ts, i.name FROM flow f JOIN slice o ON o.id = f.slice_out
JOIN slice i ON i.id = f.slice_in ORDER BY 1, 3;

SELECT name, value FROM stats WHERE name = 'gpu_work_period_negative_duration';
