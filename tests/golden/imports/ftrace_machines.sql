SELECT t.machine_id, ts, value FROM counter c JOIN counter_track t ON t.id = c.track_id
WHERE t.name = 'Kfree Skb IP Prot' ORDER BY t.machine_id, ts;
SELECT t.machine_id, s.name, ts, dur FROM slice s JOIN track t ON t.id = s.track_id
ORDER BY t.machine_id, ts;
