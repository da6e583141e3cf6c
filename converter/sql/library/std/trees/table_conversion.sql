-- SPDX-License-Identifier: Apache-2.0
--
-- Trees as values: made of tables, and turned into tables.

-- A column's name and value, in the form for a tree.
CREATE PERFETTO MACRO _tree_from_table_col(
    -- Column.
    col ColumnName
)
RETURNS _ProjectionFragment AS __intrinsic_stringify!($col), t.$col;

-- A tree of a table's rows.
CREATE PERFETTO MACRO _tree_from_table(
    -- Nodes: id, parent_id (NULL: a root), and the columns named.
    source_table TableOrSubquery,
    -- Columns that the nodes keep, in parentheses, at most 6.
    columns ColumnNameList
)
RETURNS Expr AS (
    SELECT __intrinsic_tree_from_table(
        'id', t.id, 'parent_id', t.parent_id,
        __intrinsic_token_apply!(_tree_from_table_col, $columns))
    FROM $source_table AS t
);

-- A column of the result under its name.
CREATE PERFETTO MACRO _tree_to_table_col_select(
    -- Column c4, c5, ...
    idx ColumnName,
    -- Name.
    col ColumnName
)
RETURNS _ProjectionFragment AS $idx AS $col;

-- Gives a column of the result its name.
CREATE PERFETTO MACRO _tree_to_table_col_bind(
    -- Column c4, c5, ...
    idx ColumnName,
    -- Name.
    col ColumnName
)
RETURNS Expr AS __intrinsic_table_ptr_bind($idx, __intrinsic_stringify!($col));

-- The nodes of a tree as rows. Columns: _tree_id, the number of the node in the tree, from 0;
-- _tree_parent_id, the number of its parent, NULL for roots; id and parent_id of the table; the
-- named columns.
CREATE PERFETTO MACRO _tree_to_table(
    -- Tree, see _tree_from_table.
    tree_ptr Expr,
    -- Columns of the tree in parentheses, the same as were given to _tree_from_table.
    columns ColumnNameList
)
RETURNS TableOrSubquery AS (
    SELECT c0 AS _tree_id, c1 AS _tree_parent_id, c2 AS id, c3 AS parent_id,
           __intrinsic_token_apply!(_tree_to_table_col_select, (c4, c5, c6, c7, c8, c9), $columns)
    FROM __intrinsic_table_ptr(__intrinsic_tree_to_table($tree_ptr))
    WHERE __intrinsic_token_apply_and!(
              _tree_to_table_col_bind, (c0, c1, c2, c3), (_tree_id, _tree_parent_id, id, parent_id))
      AND __intrinsic_token_apply_and!(
              _tree_to_table_col_bind, (c4, c5, c6, c7, c8, c9), $columns)
);
