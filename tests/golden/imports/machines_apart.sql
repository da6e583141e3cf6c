SELECT id, raw_id, label_index FROM machine ORDER BY id;
SELECT machine_id, pid FROM process ORDER BY machine_id, pid;
SELECT ts, value, p.machine_id FROM counter c JOIN process_counter_track t ON t.id = c.track_id
JOIN process p USING (upid) ORDER BY ts;
SELECT ts, clock_id, clock_value, machine_id FROM clock_snapshot ORDER BY id;
