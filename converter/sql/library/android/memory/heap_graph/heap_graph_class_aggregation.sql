-- SPDX-License-Identifier: Apache-2.0
--
-- Objects of Java heaps by class.

INCLUDE PERFETTO MODULE android.memory.heap_graph.dominator_tree;
INCLUDE PERFETTO MODULE graphs.partition;

-- 1 if a class belongs to the language's library, or is an array of numbers.
CREATE PERFETTO FUNCTION _is_libcore_or_array(
  -- Name of the class.
  obj_name STRING
)
RETURNS BOOL AS
SELECT max($obj_name GLOB value) AND NOT $obj_name GLOB 'java.lang.Class<*>'
FROM json_each('["java.*", "j$.*", "int[[]*", "long[[]*", "byte[[]*", "char[[]*", "short[[]*",
  "float[[]*", "double[[]*", "boolean[[]*", "android.util.*Array*", "kotlinx.coroutines.*",
  "kotlinx.atomicfu.*"]');

-- The tree of dominators below one root, in the form for tree_structural_partition_by_group.
CREATE PERFETTO TABLE _heap_graph_dominator_tree_for_partition AS
SELECT t.id, ifnull(t.idom_id, _heap_graph_super_root_fn()) AS parent_id, o.type_id AS group_key
FROM heap_graph_dominator_tree t JOIN heap_graph_object o ON o.id = t.id
UNION ALL
SELECT max(id) + 1, NULL, (SELECT max(id) + 1 FROM heap_graph_class) FROM heap_graph_object
HAVING count(*) > 0;

-- Objects that no other object of their class dominates: their sums do not overlap.
CREATE PERFETTO TABLE _heap_graph_outermost_object AS
SELECT CAST(id AS INTEGER) AS id
FROM tree_structural_partition_by_group!(_heap_graph_dominator_tree_for_partition)
WHERE parent_id IS NULL ORDER BY id;

CREATE PERFETTO INDEX _heap_graph_outermost_object_id ON _heap_graph_outermost_object(id);

-- Objects of each class, and what they dominate.
CREATE PERFETTO TABLE android_heap_graph_class_aggregation(
  -- Process.
  upid JOINID(process.id),
  -- Time of the dump (ns).
  graph_sample_ts TIMESTAMP,
  -- Class, see heap_graph_class.
  type_id LONG,
  -- Name of the class.
  type_name STRING,
  -- Whether the class is one of the language's own library, or an array of numbers.
  is_libcore_or_array BOOL,
  -- Objects.
  obj_count LONG,
  -- Size of the objects (bytes).
  size_bytes LONG,
  -- Native memory of the objects (bytes).
  native_size_bytes LONG,
  -- Reachable objects.
  reachable_obj_count LONG,
  -- Size of the reachable objects (bytes).
  reachable_size_bytes LONG,
  -- Native memory of the reachable objects (bytes).
  reachable_native_size_bytes LONG,
  -- Objects that reachable objects of the class dominate, themselves included.
  dominated_obj_count LONG,
  -- Size of the dominated objects (bytes).
  dominated_size_bytes LONG,
  -- Native memory of the dominated objects (bytes).
  dominated_native_size_bytes LONG
) AS
WITH
  total AS (
    SELECT o.upid, o.graph_sample_ts, o.type_id, count(*) AS obj_count,
           sum(o.self_size) AS size_bytes,
      sum(o.native_size) AS native_size_bytes,
      count(*) FILTER (WHERE o.reachable) AS reachable_obj_count,
      ifnull(sum(o.self_size) FILTER (WHERE o.reachable), 0) AS reachable_size_bytes,
      ifnull(sum(o.native_size) FILTER (WHERE o.reachable), 0) AS reachable_native_size_bytes,
      ifnull(sum(d.dominated_obj_count), 0) AS dominated_obj_count,
      ifnull(sum(d.dominated_size_bytes), 0) AS dominated_size_bytes,
      ifnull(sum(d.dominated_native_size_bytes), 0) AS dominated_native_size_bytes
    FROM heap_graph_object o
    LEFT JOIN _heap_graph_outermost_object m ON m.id = o.id
    LEFT JOIN heap_graph_dominator_tree d ON d.id = m.id
    GROUP BY o.upid, o.graph_sample_ts, o.type_id
  )
SELECT t.upid, t.graph_sample_ts, t.type_id, coalesce(c.deobfuscated_name, c.name) AS type_name,
  _is_libcore_or_array(coalesce(c.deobfuscated_name, c.name)) AS is_libcore_or_array, t.obj_count,
  t.size_bytes, t.native_size_bytes, t.reachable_obj_count, t.reachable_size_bytes,
  t.reachable_native_size_bytes, t.dominated_obj_count, t.dominated_size_bytes,
  t.dominated_native_size_bytes
FROM total t JOIN heap_graph_class c ON c.id = t.type_id
ORDER BY t.upid, t.graph_sample_ts, t.type_id;
