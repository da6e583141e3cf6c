SELECT s.name, a.key, a.flat_key, a.display_value FROM slice s JOIN args a USING (arg_set_id)
ORDER BY s.id, a.id;
