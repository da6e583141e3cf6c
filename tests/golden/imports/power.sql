SELECT c.ts, t.type, t.name, t.unit,
       (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
        WHERE a.arg_set_id = t.dimension_arg_set_id) AS what,
  (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
   WHERE a.arg_set_id = t.source_arg_set_id) AS more, c.value,
  (SELECT a.int_value FROM args a
   WHERE a.arg_set_id = c.arg_set_id AND a.key = 'packet_ts') AS packet_ts
FROM counter c JOIN counter_track t ON t.id = c.track_id ORDER BY t.type, t.name, what, c.ts, c.id;

SELECT t.name, u.uid, u.cluster, u.total_cpu_millis, u.package_name
FROM android_cpu_per_uid_track u JOIN counter_track t USING (id) ORDER BY u.uid, u.cluster;

SELECT t.name, c.ts, c.dur, c.diff_ms, c.cpu_ratio
FROM android_cpu_per_uid_counter c JOIN counter_track t ON t.id = c.track_id ORDER BY t.name, c.ts;

SELECT name, value FROM stats
WHERE value > 0
  AND (name LIKE 'power_rail%' OR name LIKE 'energy%' OR name LIKE 'entity%'
       OR name LIKE 'kernel_wakelock%')
ORDER BY name;
