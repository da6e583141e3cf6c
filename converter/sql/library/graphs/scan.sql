-- SPDX-License-Identifier: Apache-2.0
--
-- Values that are computed along the edges of a graph, from node to node.

-- A column's name and value, in the form for a set of rows.
CREATE PERFETTO MACRO _graph_scan_df_agg(
    -- Column.
    x ColumnName,
    -- The same column as x.
    y ColumnName
)
RETURNS _ProjectionFragment AS __intrinsic_stringify!($x), init_table.$y;

-- Gives a column of the result its name.
CREATE PERFETTO MACRO _graph_scan_bind(
    -- Column c0, c1, ...
    x ColumnName,
    -- Name.
    y ColumnName
)
RETURNS Expr AS __intrinsic_table_ptr_bind(result.$x, __intrinsic_stringify!($y));

-- A column of the result under its name.
CREATE PERFETTO MACRO _graph_scan_select(
    -- Column c0, c1, ...
    x ColumnName,
    -- Name.
    y ColumnName
)
RETURNS _ProjectionFragment AS result.$x AS $y;

-- The edges of a graph as one value.
CREATE PERFETTO MACRO __graph_scan_edges(edges TableOrSubquery) RETURNS Expr
AS (SELECT __intrinsic_graph_agg(t.source_node_id, t.dest_node_id) FROM $edges AS t);

-- The first rows as one value.
CREATE PERFETTO MACRO __graph_scan_rows(rows TableOrSubquery, columns ColumnNameList) RETURNS Expr
AS (
    SELECT __intrinsic_row_dataframe_agg(
        'id', init_table.id, __intrinsic_token_apply!(_graph_scan_df_agg, $columns, $columns))
    FROM $rows AS init_table
);

-- The rows of a scan.
CREATE PERFETTO MACRO __graph_scan_result(scan Expr, columns ColumnNameList)
RETURNS TableOrSubquery AS (
    SELECT result.c0 AS id,
           __intrinsic_token_apply!(_graph_scan_select, (c1, c2, c3, c4, c5, c6, c7), $columns)
    FROM __intrinsic_table_ptr($scan) AS result
    WHERE __intrinsic_table_ptr_bind(result.c0, 'id')
      AND __intrinsic_token_apply_and!(_graph_scan_bind, (c1, c2, c3, c4, c5, c6, c7), $columns)
);

-- Walks from nodes along the edges. A query computes each step's values from the values of the step
-- before. Columns: id of the node, and the named columns. A node has a row for each path to the
-- node.
CREATE PERFETTO MACRO _graph_scan(
    -- Edges: source_node_id, dest_node_id.
    graph_table TableOrSubquery,
    -- Nodes to begin with: id, and the columns named.
    init_table TableOrSubquery,
    -- Columns of values in parentheses, at most 7.
    scan_columns ColumnNameList,
    -- Query of one step: reads $table, which has the nodes of the step with the values of the nodes
    -- that they were reached from, and returns id and the columns named.
    step_query TableOrSubquery
)
RETURNS TableOrSubquery AS __graph_scan_result!(
    __intrinsic_graph_scan(
        __graph_scan_edges!($graph_table), __graph_scan_rows!($init_table, $scan_columns),
        __intrinsic_stringify_ignore_table!($step_query), __intrinsic_stringify!($scan_columns)),
    $scan_columns);

-- Walks as _graph_scan does, but a node takes its step when all nodes with an edge to the node have
-- taken their steps. The query can thus sum up their values. Columns: id of the node, and the named
-- columns; one row for each node.
CREATE PERFETTO MACRO _graph_aggregating_scan(
    -- Edges: source_node_id, dest_node_id. The graph has no circles.
    graph_table TableOrSubquery,
    -- Nodes to begin with: id, and the columns named.
    init_table TableOrSubquery,
    -- Columns of values in parentheses, at most 7.
    agg_columns ColumnNameList,
    -- Query of one step: reads $table, which has a row for each edge to a node of the step, and
    -- returns id and the columns named.
    agg_query TableOrSubquery
)
RETURNS TableOrSubquery AS __graph_scan_result!(
    __intrinsic_graph_aggregating_scan(
        __graph_scan_edges!($graph_table), __graph_scan_rows!($init_table, $agg_columns),
        __intrinsic_stringify_ignore_table!($agg_query), __intrinsic_stringify!($agg_columns)),
    $agg_columns);
