SELECT s.ts, s.dur, s.category, s.name, t.type, t.name FROM slice s
JOIN track t ON t.id = s.track_id ORDER BY s.ts;
SELECT c.ts, c.value, t.type, t.name FROM counter c JOIN counter_track t ON t.id = c.track_id
ORDER BY c.ts;
SELECT value FROM stats WHERE name = 'slice_negative_duration';
