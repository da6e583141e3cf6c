SELECT name, key_type, int_value, str_value, machine_id, trace_id FROM metadata
WHERE name LIKE 'trace_attr%' OR name LIKE 'bench%' OR name LIKE 'cr-%'
  OR name IN ('ui_state', 'range_of_interest_start_us', 'unique_session_name') ORDER BY name, id;
SELECT s.ts, s.dur, s.name, t.name, t.type FROM slice s JOIN track t ON t.id = s.track_id
ORDER BY s.ts, s.id;
SELECT s.ts, a.key, a.value_type, a.display_value FROM slice s JOIN args a USING (arg_set_id)
ORDER BY s.ts, a.key, a.display_value;
SELECT name, value FROM stats WHERE name LIKE 'atom%';
