SELECT s.ts, s.name, a.flat_key, a.key, a.value_type, a.int_value, a.string_value, a.real_value
FROM slice s JOIN args a USING (arg_set_id) ORDER BY s.ts, a.id;

SELECT name, value FROM stats WHERE value AND name LIKE '%annotations%';
