SELECT a.ts, a.upid, a.heap_name, f.name, a.count, a.size FROM heap_profile_allocation a
JOIN stack_profile_callsite c ON c.id = a.callsite_id
JOIN stack_profile_frame f ON f.id = c.frame_id ORDER BY a.id;
SELECT ts, ts_end, dur, upid, heap_name FROM heap_profile ORDER BY id;
SELECT name, idx, value FROM stats WHERE name = 'heapprofd_malformed_packet';
