-- SPDX-License-Identifier: Apache-2.0
--
-- The memory that would be free without an object.

INCLUDE PERFETTO MODULE android.memory.heap_graph.raw_dominator_tree;

-- Reachable objects, their dominators, and sums of what they dominate.
CREATE PERFETTO TABLE heap_graph_dominator_tree(
  -- Object, see heap_graph_object.
  id LONG,
  -- The nearest object that dominates this object; NULL for a root, and for an object that is
  -- reached from several roots.
  idom_id LONG,
  -- Objects that this one dominates, itself included.
  dominated_obj_count LONG,
  -- Size of the dominated objects (bytes).
  dominated_size_bytes LONG,
  -- Native memory of the dominated objects (bytes).
  dominated_native_size_bytes LONG,
  -- Depth in the tree; 1 without a dominator.
  depth LONG
) AS
SELECT c0 AS id, c1 AS idom_id, c2 AS dominated_obj_count, c3 AS dominated_size_bytes,
  c4 AS dominated_native_size_bytes, c5 AS depth
FROM __intrinsic_table_ptr((
  SELECT __intrinsic_tree_dominator_summary(__intrinsic_tree_from_table(
    'id', t.id, 'parent_id', t.idom_id, 'self_size', o.self_size,
    'native_size', o.native_size, 'self_count', 1))
  FROM _raw_heap_graph_dominator_tree t JOIN heap_graph_object o ON o.id = t.id))
WHERE __intrinsic_table_ptr_bind(c0, 'id') AND __intrinsic_table_ptr_bind(c1, 'idom_id')
  AND __intrinsic_table_ptr_bind(c2, 'dominated_obj_count')
  AND __intrinsic_table_ptr_bind(c3, 'dominated_size_bytes')
  AND __intrinsic_table_ptr_bind(c4, 'dominated_native_size_bytes')
  AND __intrinsic_table_ptr_bind(c5, 'depth')
ORDER BY 1;

CREATE PERFETTO INDEX heap_graph_dominator_tree_id ON heap_graph_dominator_tree(id);
