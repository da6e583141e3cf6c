SELECT s.name, a.key, a.value_type, a.display_value FROM slice s JOIN args a USING (arg_set_id)
ORDER BY s.id, a.key;
SELECT name, value FROM stats WHERE value AND name LIKE 'track_event%';
