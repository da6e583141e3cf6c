SELECT c.ts, t.type, t.name, (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
                              WHERE a.arg_set_id = t.dimension_arg_set_id) AS what, c.value
FROM counter c JOIN counter_track t ON t.id = c.track_id ORDER BY t.type, t.name, c.ts;

SELECT s.ts, s.dur, t.type, t.name,
       (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
        WHERE a.arg_set_id = t.dimension_arg_set_id) AS what,
  s.name, (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
           WHERE a.arg_set_id = s.arg_set_id) AS more
FROM slice s JOIN track t ON t.id = s.track_id ORDER BY s.ts, s.id;

SELECT * FROM android_game_intervention_list;

SELECT * FROM android_user_list ORDER BY 1;

SELECT * FROM android_aflags;

SELECT n.* FROM android_network_packets n ORDER BY ts;

SELECT l.ts, t.tid, t.upid IS NOT NULL AS has_process, prio, tag, msg, uid, comm, systemd_unit,
       hostname, transport
FROM linux_systemd_journald_logs l LEFT JOIN thread t USING (utid) ORDER BY ts;

SELECT name, str_value, int_value FROM metadata
WHERE name LIKE 'android_profile%' OR name LIKE 'debug%' ORDER BY name;

SELECT name, value FROM stats
WHERE value > 0
  AND (name LIKE '%aflags%' OR name LIKE 'game%' OR name LIKE 'network%' OR name LIKE 'user_list%'
       OR name LIKE 'systemd%')
ORDER BY name;
