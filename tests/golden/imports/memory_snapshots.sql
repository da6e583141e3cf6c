SELECT s.id, s.timestamp, s.detail_level, t.type, p.id, r.pid FROM memory_snapshot s
JOIN track t ON t.id = s.track_id
LEFT JOIN process_memory_snapshot p ON p.snapshot_id = s.id LEFT JOIN process r USING (upid)
ORDER BY s.id, r.pid, p.id;

SELECT n.id, n.process_snapshot_id, n.parent_node_id, n.path, n.size, n.effective_size
FROM memory_snapshot_node n;

SELECT n.path, a.key, a.value_type, a.display_value FROM memory_snapshot_node n
JOIN args a USING (arg_set_id) ORDER BY n.id, a.key;

SELECT s.path, t.path, e.importance FROM memory_snapshot_edge e
JOIN memory_snapshot_node s ON s.id = e.source_node_id
JOIN memory_snapshot_node t ON t.id = e.target_node_id
ORDER BY e.id;

SELECT name, value FROM stats WHERE value AND name LIKE 'memory_snapshot%';
