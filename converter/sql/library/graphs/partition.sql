-- SPDX-License-Identifier: Apache-2.0
--
-- Trees of the nodes of one kind.

-- Takes a tree apart by groups: the parent of a node becomes the nearest node above it with the
-- same group, or NULL if there is none. Columns: id, parent_id, group_key, in no order. Nodes are
-- numbers from 0 on, such as ids of tables; the memory grows with the largest number.
CREATE PERFETTO MACRO tree_structural_partition_by_group(
    -- Tree: id, parent_id (NULL: a root), group_key (a number).
    tree_table TableOrSubquery
)
RETURNS TableOrSubquery AS (
    SELECT c0 AS id, c1 AS parent_id, c2 AS group_key
    FROM __intrinsic_table_ptr((
        SELECT __intrinsic_structural_tree_partition(node.id, node.parent_id, node.group_key)
        FROM $tree_table AS node
    ))
    WHERE __intrinsic_table_ptr_bind(c0, 'node_id')
      AND __intrinsic_table_ptr_bind(c1, 'parent_node_id')
      AND __intrinsic_table_ptr_bind(c2, 'group_key')
);
