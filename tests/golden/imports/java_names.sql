SELECT ts, p.pid, heap_size FROM heap_graph JOIN process p USING (upid);

SELECT id, name, deobfuscated_name, location, kind FROM heap_graph_class;

SELECT r.owner_id, r.owned_id, r.field_name, r.field_type_name, r.deobfuscated_field_name
FROM heap_graph_reference r;

SELECT o.id, o.object_data_id, f.field_name, f.field_type, f.int_value, f.long_value
FROM heap_graph_object o
LEFT JOIN heap_graph_object_data d ON d.id = o.object_data_id
LEFT JOIN heap_graph_primitive f USING (field_set_id)
ORDER BY o.id, f.field_name;
