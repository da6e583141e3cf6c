SELECT ts, upid, heap_size, truncated FROM heap_graph;

SELECT c.id, c.name, c.location, s.name AS super, c.classloader_id, c.kind FROM heap_graph_class c
LEFT JOIN heap_graph_class s ON s.id = c.superclass_id;

SELECT o.id, o.upid, o.graph_sample_ts, o.self_size, o.native_size, o.reference_set_id, o.reachable,
       o.heap_type, c.name, o.root_type, o.root_distance FROM heap_graph_object o
       LEFT JOIN heap_graph_class c ON c.id = o.type_id;

SELECT reference_set_id, owner_id, owned_id, field_name, field_type_name FROM heap_graph_reference;

SELECT name, idx, value FROM stats WHERE name LIKE 'heap_graph%' AND value > 0;
