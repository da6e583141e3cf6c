SELECT g.ts, p.pid, p.name, p.uid, g.dump_reason, g.heap_size FROM heap_graph g
JOIN process p USING (upid) ORDER BY g.id;
SELECT g.ts, d.allocation_size_bytes, d.total_bytes_free, d.free_bytes_until_oom, d.error_msg
FROM android_heap_graph_java_oome_details d JOIN heap_graph g ON g.id = d.heap_graph_id
ORDER BY d.id;
WITH RECURSIVE up(ts, tid, depth, frame_id, parent_id) AS (SELECT g.ts, t.tid, c.depth, c.frame_id,
    c.parent_id FROM heap_graph_thread_callsite h JOIN heap_graph g ON g.id = h.heap_graph_id
    JOIN thread t USING (utid) LEFT JOIN stack_profile_callsite c ON c.id = h.callsite_id
    UNION ALL SELECT u.ts, u.tid, c.depth, c.frame_id, c.parent_id FROM up u
    JOIN stack_profile_callsite c ON c.id = u.parent_id)
    SELECT u.ts, u.tid, u.depth, f.name, m.name, s.source_file, s.line_number FROM up u
    LEFT JOIN stack_profile_frame f ON f.id = u.frame_id
    LEFT JOIN stack_profile_mapping m ON m.id = f.mapping
    LEFT JOIN stack_profile_symbol s USING (symbol_set_id);
SELECT package_name, uid, debuggable, version_code FROM package_list;
