SELECT name, int_value, machine_id FROM metadata WHERE name = 'mmsql_page_size_bytes';
SELECT kind, severity, ts, dur, text FROM verdict ORDER BY id;
