-- SPDX-License-Identifier: Apache-2.0
--
-- Nodes without which other nodes of a graph cannot be reached.

-- The dominators of nodes: every way from the root to a node leads through its dominators, and the
-- last one before the node is the one that the result has. In a heap, the objects that an object
-- dominates are those that would be freed with it. Columns: node_id; dominator_node_id, NULL for
-- the root. Nodes that cannot be reached from the root are left out. Nodes are numbers from 0 on,
-- such as ids of tables; memory is taken up to the largest one.
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
