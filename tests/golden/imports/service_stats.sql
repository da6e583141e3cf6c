SELECT name, idx, machine_id, value, severity, source FROM stats
WHERE value > 0 AND (name GLOB 'traced_buf*' OR name GLOB 'filter*' OR name GLOB '*flush*')
ORDER BY machine_id, name, idx;
SELECT name, count(*), count(DISTINCT idx) FROM stats
WHERE name IN ('traced_buf_data_loss_read_gap', 'traced_buf_sequence_packet_loss',
               'traced_buf_bytes_filtered_out') GROUP BY name;
SELECT name, idx, value, severity FROM stats WHERE value AND name GLOB '*ftrace*' ORDER BY name;
SELECT trace_id, ts, byte_offset, severity, name,
       (SELECT group_concat(key || '=' || display_value) FROM args a
        WHERE a.arg_set_id = l.arg_set_id) AS args FROM _trace_import_logs l ORDER BY id;
SELECT name, machine_id, trace_id, value > 0, severity, source FROM stats
WHERE name = 'parse_trace_duration_ns';
SELECT count(DISTINCT name) > 1 FROM stats WHERE machine_id IS NULL AND trace_id IS NULL;
