-- SPDX-License-Identifier: Apache-2.0
--
-- Slices that arrows between slices lead to.

INCLUDE PERFETTO MODULE graphs.search;

-- The slices that each of some slices reaches over any number of flows. The built-in function
-- following_flow(id) has the slices of one slice. Columns: root_node_id, the first slice; node_id,
-- a slice; parent_node_id, the slice from which the search reached it.
CREATE PERFETTO MACRO _slice_following_flow(
    -- Slices to begin with: id.
    source_table TableOrSubquery
)
RETURNS TableOrSubquery AS (
    SELECT reached.*
    FROM graph_reachable_weight_bounded_dfs!(
        (SELECT slice_out AS source_node_id, slice_in AS dest_node_id, 0 AS edge_weight FROM flow),
        (SELECT f.slice_out AS root_node_id, 1 AS root_target_weight
         FROM $source_table AS source JOIN flow f ON f.slice_out = source.id),
        1) AS reached
);
