-- SPDX-License-Identifier: Apache-2.0
--
-- Nodes of a graph that can be reached.
--
-- Nodes are numbers from 0 on, such as ids of tables; the memory grows with the largest number.

-- An array of start nodes.
CREATE PERFETTO MACRO __graph_starts(nodes TableOrSubquery) RETURNS Expr
AS (SELECT __intrinsic_array_agg(t.node_id) FROM $nodes AS t);

-- A graph made of edges.
CREATE PERFETTO MACRO __graph_edges(edges TableOrSubquery) RETURNS Expr
AS (SELECT __intrinsic_graph_agg(t.source_node_id, t.dest_node_id) FROM $edges AS t);

-- The rows of a tree of nodes.
CREATE PERFETTO MACRO __graph_tree(tree Expr) RETURNS TableOrSubquery AS (
    SELECT c0 AS node_id, c1 AS parent_node_id
    FROM __intrinsic_table_ptr($tree)
    WHERE __intrinsic_table_ptr_bind(c0, 'node_id')
      AND __intrinsic_table_ptr_bind(c1, 'parent_node_id')
);

-- The nodes that can be reached, in the order of a search that goes deep first. Columns: node_id;
-- parent_node_id, the node that the search came from, NULL for start nodes.
CREATE PERFETTO MACRO graph_reachable_dfs(
    -- Edges: source_node_id, dest_node_id.
    graph_table TableOrSubquery,
    -- Start nodes: node_id.
    start_nodes TableOrSubquery
)
RETURNS TableOrSubquery
AS __graph_tree!(__intrinsic_dfs(__graph_edges!($graph_table), __graph_starts!($start_nodes)));

-- The nodes that can be reached, those with the fewest edges to a start node first. Columns:
-- node_id; parent_node_id, the node that the search came from, NULL for start nodes.
CREATE PERFETTO MACRO graph_reachable_bfs(
    -- Edges: source_node_id, dest_node_id.
    graph_table TableOrSubquery,
    -- Start nodes: node_id.
    start_nodes TableOrSubquery
)
RETURNS TableOrSubquery
AS __graph_tree!(__intrinsic_bfs(__graph_edges!($graph_table), __graph_starts!($start_nodes)));

-- The node after each node among those with the same parent. Columns: node_id; next_node_id, NULL
-- for the last one.
CREATE PERFETTO MACRO graph_next_sibling(
    -- Nodes: node_id, node_parent_id, sort_key.
    graph_table TableOrSubquery
)
RETURNS TableOrSubquery AS (
    SELECT node_id, lead(node_id) OVER siblings AS next_node_id
    FROM $graph_table
    WINDOW siblings AS (PARTITION BY node_parent_id ORDER BY sort_key)
);

-- For each root, the nodes that a depth-first search finds. The search ends when the sum of the
-- weights of its edges exceeds the root's target. Columns: root_node_id; node_id; parent_node_id,
-- the node that the search came from, NULL for the root.
CREATE PERFETTO MACRO graph_reachable_weight_bounded_dfs(
    -- Edges: source_node_id, dest_node_id, edge_weight.
    graph_table TableOrSubquery,
    -- Roots: root_node_id, root_target_weight.
    root_table TableOrSubquery,
    -- 1: the node at which the target is exceeded is the last one; 0: the node before is.
    is_target_weight_floor Expr
)
RETURNS TableOrSubquery AS (
    WITH __edge AS (SELECT source_node_id, dest_node_id, edge_weight FROM $graph_table),
    __start AS (SELECT root_node_id, root_target_weight FROM $root_table)
    SELECT found.root_node_id, found.node_id, found.parent_node_id
    FROM __intrinsic_dfs_weight_bounded(
        (SELECT RepeatedField(source_node_id) FROM __edge),
        (SELECT RepeatedField(dest_node_id) FROM __edge),
        (SELECT RepeatedField(edge_weight) FROM __edge),
        (SELECT RepeatedField(root_node_id) FROM __start),
        (SELECT RepeatedField(root_target_weight) FROM __start),
        $is_target_weight_floor) AS found
);
