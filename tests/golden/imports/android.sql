SELECT c.ts, t.type, t.name, t.unit, p.name, c.value
FROM counter c JOIN counter_track t ON t.id = c.track_id
LEFT JOIN process_counter_track pt ON pt.id = t.id LEFT JOIN process p USING (upid) ORDER BY c.id;

SELECT l.ts, t.name, l.prio, l.tag, l.msg FROM android_logs l JOIN thread t USING (utid)
ORDER BY l.ts;

SELECT name, value FROM stats WHERE name LIKE 'android_log%' AND value > 0 ORDER BY name;
