-- SPDX-License-Identifier: Apache-2.0
--
-- The memory that would be free without an object.

INCLUDE PERFETTO MODULE android.memory.heap_graph.raw_dominator_tree;
INCLUDE PERFETTO MODULE graphs.scan;

CREATE PERFETTO TABLE _heap_graph_dominated AS
SELECT CAST(id AS INTEGER) AS id, n, size, native_size
FROM _graph_aggregating_scan!(
  (SELECT id AS source_node_id, idom_id AS dest_node_id FROM _raw_heap_graph_dominator_tree
   WHERE idom_id IS NOT NULL),
  (SELECT t.id, 1 AS n, o.self_size AS size, o.native_size
   FROM _raw_heap_graph_dominator_tree AS t JOIN heap_graph_object AS o ON o.id = t.id
   WHERE NOT EXISTS (SELECT 1 FROM _raw_heap_graph_dominator_tree AS b WHERE b.idom_id = t.id)),
  (n, size, native_size),
  (SELECT o.id, 1 + below.n AS n, o.self_size + below.size AS size,
     o.native_size + below.native_size AS native_size
   FROM (
     SELECT id, sum(n) AS n, sum(size) AS size, sum(native_size) AS native_size
     FROM $table GROUP BY id
   ) AS below
   JOIN heap_graph_object AS o ON o.id = below.id)
)
ORDER BY id;

CREATE PERFETTO TABLE _heap_graph_dominator_depth AS
SELECT CAST(id AS INTEGER) AS id, depth
FROM _graph_scan!(
  (SELECT idom_id AS source_node_id, id AS dest_node_id FROM _raw_heap_graph_dominator_tree
   WHERE idom_id IS NOT NULL),
  (SELECT id, 1 AS depth FROM _raw_heap_graph_dominator_tree WHERE idom_id IS NULL),
  (depth),
  (SELECT id, depth + 1 AS depth FROM $table)
)
ORDER BY id;

CREATE PERFETTO INDEX _heap_graph_dominated_id ON _heap_graph_dominated(id);
CREATE PERFETTO INDEX _heap_graph_dominator_depth_id ON _heap_graph_dominator_depth(id);

-- Reachable objects, their dominators, and sums of what they dominate.
CREATE PERFETTO TABLE heap_graph_dominator_tree(
  -- Object, see heap_graph_object.
  id LONG,
  -- Object that dominates this one and no other dominator of it; NULL for a root, and for an object
  -- that is reached from several roots.
  idom_id LONG,
  -- Objects that this one dominates, itself included.
  dominated_obj_count LONG,
  -- Their size (bytes).
  dominated_size_bytes LONG,
  -- Their native memory (bytes).
  dominated_native_size_bytes LONG,
  -- Depth in the tree; 1 without a dominator.
  depth LONG
) AS
SELECT t.id, t.idom_id, s.n AS dominated_obj_count, s.size AS dominated_size_bytes,
  s.native_size AS dominated_native_size_bytes, d.depth
FROM _raw_heap_graph_dominator_tree t
JOIN _heap_graph_dominated s ON s.id = t.id
JOIN _heap_graph_dominator_depth d ON d.id = t.id
ORDER BY t.id;

CREATE PERFETTO INDEX heap_graph_dominator_tree_id ON heap_graph_dominator_tree(id);
