SELECT h.ts, h.ts_end, h.dur, p.pid, h.heap_name FROM heap_profile h JOIN process p USING (upid);

SELECT a.ts, p.pid, a.heap_name, f.name, c.depth, a.count, a.size FROM heap_profile_allocation a
JOIN process p USING (upid)
JOIN stack_profile_callsite c ON c.id = a.callsite_id
JOIN stack_profile_frame f ON f.id = c.frame_id;

SELECT f.name, f.rel_pc, m.build_id, m.exact_offset, m.start_offset, m.start, m."end", m.load_bias,
       m.name FROM stack_profile_frame f JOIN stack_profile_mapping m ON m.id = f.mapping;

SELECT name, idx, value FROM stats
WHERE value AND (name LIKE 'heapprofd%' OR name LIKE 'stackprofile%') ORDER BY name, idx;
