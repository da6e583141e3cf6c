SELECT ts, dur, cpu, t.tid, t.name, end_state, priority FROM sched_slice
LEFT JOIN thread t USING (utid) ORDER BY ts;
SELECT ts, dur, cpu, t.tid, state, io_wait, blocked_function,
       (SELECT w.tid FROM thread w WHERE w.utid = waker_utid) FROM thread_state s
       LEFT JOIN thread t USING (utid) ORDER BY ts, t.tid;
SELECT c.ts, t.name, t.type, t.unit, c.value FROM counter c
JOIN counter_track t ON t.id = c.track_id ORDER BY c.ts, t.name;
SELECT s.ts, s.dur, s.category, s.name, t.type,
       (SELECT th.tid FROM args a JOIN thread th ON th.utid = a.int_value
        WHERE a.arg_set_id = t.dimension_arg_set_id
          AND a.key = 'utid'),
            (SELECT group_concat(key || '=' || display_value, ' ') FROM args a
             WHERE a.arg_set_id = s.arg_set_id) FROM slice s JOIN track t ON t.id = s.track_id
             ORDER BY s.ts;
SELECT name, value FROM stats
WHERE value > 0
  AND (name GLOB 'mmsql*' OR name GLOB '*disk*' OR name GLOB '*state*' OR name GLOB '*tids')
  ORDER BY name;
