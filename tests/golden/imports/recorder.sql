SELECT irq_id, name FROM linux_interrupt_mapping;
SELECT device, inode, type, path FROM inode_path;
SELECT device, path FROM inode_mount;
SELECT s.ts, s.dur, s.category, s.name, t.tid,
       (SELECT group_concat(key || '=' || display_value, ' ') FROM args a
        WHERE a.arg_set_id = s.arg_set_id) FROM slice s JOIN thread_track tt ON tt.id = s.track_id
        JOIN thread t USING (utid) ORDER BY s.ts;
SELECT c.ts, c.value, t.name, t.type, th.tid,
       (SELECT group_concat(key || '=' || display_value, ' ') FROM args a
        WHERE a.arg_set_id = c.arg_set_id) FROM counter c JOIN counter_track t ON t.id = c.track_id
        JOIN thread_counter_track tt ON tt.id = t.id JOIN thread th USING (utid) ORDER BY c.ts;
SELECT name, key_type, int_value, str_value FROM metadata WHERE name GLOB 'cr-*' ORDER BY id;
SELECT r.ts, r.name, a.key, a.value_type, a.display_value FROM chrome_raw r
LEFT JOIN args a USING (arg_set_id) ORDER BY r.id, a.key;
SELECT name, idx, value FROM stats
WHERE value > 0 AND name NOT GLOB '*timestamp*' AND name <> 'parse_trace_duration_ns' ORDER BY name;
SELECT sequence, buffer, producer FROM trace_sequence;
