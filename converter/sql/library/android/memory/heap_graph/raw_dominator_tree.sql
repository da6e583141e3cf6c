-- SPDX-License-Identifier: Apache-2.0
--
-- Dominators: an object dominates another one if each path from a root to the other goes through
-- it. If the dominator is freed, the other object is freed, too.

INCLUDE PERFETTO MODULE android.memory.heap_graph.excluded_refs;
INCLUDE PERFETTO MODULE graphs.dominator_tree;

-- The id of a node above all roots. No object has this id. NULL without a heap graph.
CREATE PERFETTO FUNCTION _heap_graph_super_root_fn()
RETURNS LONG AS
SELECT (SELECT max(id) + 1 FROM heap_graph_object);

-- Dominators of reachable objects: id, idom_id (NULL: a root, or reached from several roots).
CREATE PERFETTO TABLE _raw_heap_graph_dominator_tree AS
WITH above AS (SELECT _heap_graph_super_root_fn() AS id)
SELECT CAST(node_id AS INTEGER) AS id,
  CAST(nullif(dominator_node_id, (SELECT id FROM above)) AS INTEGER) AS idom_id
FROM graph_dominator_tree!(
  (SELECT e.source_node_id, e.dest_node_id
   FROM _heap_graph_edge AS e JOIN heap_graph_object AS o ON o.id = e.source_node_id
   WHERE o.reachable
   UNION ALL
   SELECT _heap_graph_super_root_fn(), id FROM heap_graph_object WHERE root_type IS NOT NULL),
  (SELECT id FROM above)
)
WHERE dominator_node_id IS NOT NULL
ORDER BY node_id;

CREATE PERFETTO INDEX _raw_heap_graph_dominator_tree_id ON _raw_heap_graph_dominator_tree(id);
CREATE PERFETTO INDEX _raw_heap_graph_dominator_tree_idom
ON _raw_heap_graph_dominator_tree(idom_id);
