-- SPDX-License-Identifier: Apache-2.0
--
-- Nodes without which other nodes of a graph cannot be reached.

-- The immediate dominator of each node: every way from the root to a node leads through the
-- dominators of the node, and the immediate dominator is the last of them. In a heap, the objects
-- that an object dominates would be freed with the object. Columns: node_id; dominator_node_id,
-- NULL for the root. Nodes that cannot be reached from the root are left out. Nodes are numbers
-- from 0 on, such as ids of tables; the memory grows with the largest number.
CREATE PERFETTO MACRO graph_dominator_tree(
    -- Edges: source_node_id, dest_node_id.
    graph_table TableOrSubquery,
    -- Root. A graph with several roots needs a node of its own with an edge to each of them.
    root_node_id Expr
)
RETURNS TableOrSubquery AS (
    SELECT c0 AS node_id, c1 AS dominator_node_id
    FROM __intrinsic_table_ptr((
        SELECT __intrinsic_dominator_tree(edge.source_node_id, edge.dest_node_id, $root_node_id)
        FROM $graph_table AS edge
    ))
    WHERE __intrinsic_table_ptr_bind(c0, 'node_id')
      AND __intrinsic_table_ptr_bind(c1, 'dominator_node_id')
);
