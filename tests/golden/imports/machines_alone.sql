SELECT id, raw_id FROM machine;
SELECT t.name, c.ts, c.value, m.raw_id FROM counter c JOIN counter_track t ON t.id = c.track_id
JOIN machine m ON m.id = t.machine_id ORDER BY t.name;
