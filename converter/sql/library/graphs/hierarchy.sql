-- SPDX-License-Identifier: Apache-2.0
--
-- Nodes of trees, and the nodes above them.

INCLUDE PERFETTO MODULE graphs.search;

-- The start nodes, and all nodes above them. Each node has one row. Column: id.
CREATE PERFETTO MACRO _tree_reachable_ancestors_or_self(
    -- Tree: id, parent_id.
    tree TableOrSubquery,
    -- Start nodes: id.
    start_nodes TableOrSubquery
)
RETURNS TableOrSubquery AS (
    SELECT node_id AS id
    FROM graph_reachable_dfs!(
        (SELECT t.id AS source_node_id, t.parent_id AS dest_node_id FROM $tree AS t),
        (SELECT t.id AS node_id FROM $start_nodes AS t))
);
