SELECT name, int_value FROM metadata
WHERE name IN ('tracing_started_ns', 'all_data_source_started_ns');
SELECT name, idx, value, severity FROM stats WHERE name GLOB '*bytes_overwritten' ORDER BY 1, 2;
SELECT id, parent_id, name GLOB '*streamed*', size > 0, trace_type, processing_order, is_container
FROM trace_file;
