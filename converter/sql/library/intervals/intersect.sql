-- SPDX-License-Identifier: Apache-2.0
--
-- Times that intervals of several tables have in common.
--
-- Tables of intervals have the columns id, ts (ns) and dur (ns, not negative). An interval of 0 ns
-- is an instant: an interval has the instants from its ts on, but not the one at its end.

-- A partition's name and value, in the form for the set of intervals.
CREATE PERFETTO MACRO _ii_df_agg(
    -- Column of the partition.
    x ColumnName,
    -- The same column as x.
    y ColumnName
)
RETURNS _ProjectionFragment AS __intrinsic_stringify!($x), input.$y;

-- Gives a column of the result its name.
CREATE PERFETTO MACRO _ii_df_bind(
    -- Column c0, c1, ...
    x Expr,
    -- Name.
    y Expr
)
RETURNS Expr AS __intrinsic_table_ptr_bind($x, __intrinsic_stringify!($y));

-- A column under another name.
CREATE PERFETTO MACRO _ii_df_select(
    -- Column.
    x ColumnName,
    -- Name of the column in the result.
    y Expr
)
RETURNS _ProjectionFragment AS $x AS $y;

-- Returns the first argument. Applied to two lists, this macro takes as many items of the first
-- list as the second list has.
CREATE PERFETTO MACRO __ii_first(x Expr, y Expr) RETURNS Expr AS $x;

-- The set of intervals of a table whose columns have other names than id, ts and dur.
CREATE PERFETTO MACRO _interval_agg_with_col_names(
    -- Intervals.
    tab TableOrSubquery,
    -- Columns of partitions in parentheses.
    agg_columns ColumnNameList,
    -- Column of the id.
    id_col ColumnName,
    -- Column of the start (ns).
    ts_col ColumnName,
    -- Column of the duration (ns).
    dur_col ColumnName
)
RETURNS TableOrSubquery AS (
    SELECT __intrinsic_interval_set_agg(
        input.$id_col, input.$ts_col, input.$dur_col
        __intrinsic_token_apply_prefix!(_ii_df_agg, $agg_columns, $agg_columns))
    FROM $tab AS input
);

-- The set of intervals of a table.
CREATE PERFETTO MACRO _interval_agg(
    -- Intervals.
    tab TableOrSubquery,
    -- Columns of partitions in parentheses.
    agg_columns ColumnNameList
)
RETURNS TableOrSubquery AS _interval_agg_with_col_names!($tab, $agg_columns, id, ts, dur);

-- The times at which each of the tables has an interval, one row for each combination of intervals
-- with equal values of the partitions. Columns: ts and dur (ns); id_0, id_1, ...: the intervals, in
-- the order of the tables; the partitions. Tables in which no intervals overlap take O(n log n).
CREATE PERFETTO MACRO _interval_intersect(
    -- Up to 15 tables in parentheses.
    tabs _TableNameList,
    -- Up to 4 columns of partitions, which all tables have, in parentheses; () means no partitions.
    agg_columns ColumnNameList
)
RETURNS TableOrSubquery AS (
    SELECT c0 AS ts, c1 AS dur,
           __intrinsic_token_apply!(
               __ii_first,
               (c2 AS id_0, c3 AS id_1, c4 AS id_2, c5 AS id_3, c6 AS id_4, c7 AS id_5, c8 AS id_6,
                c9 AS id_7, c10 AS id_8, c11 AS id_9, c12 AS id_10, c13 AS id_11, c14 AS id_12,
                c15 AS id_13, c16 AS id_14),
               $tabs)
           __intrinsic_token_apply_prefix!(_ii_df_select, (c17, c18, c19, c20), $agg_columns)
    FROM __intrinsic_table_ptr(__intrinsic_interval_intersect(
        __intrinsic_token_apply!(
            _interval_agg,
            $tabs,
            ($agg_columns, $agg_columns, $agg_columns, $agg_columns, $agg_columns, $agg_columns,
             $agg_columns, $agg_columns, $agg_columns, $agg_columns, $agg_columns, $agg_columns,
             $agg_columns, $agg_columns, $agg_columns)),
        __intrinsic_stringify!($agg_columns)))
    WHERE __intrinsic_token_apply_and!(
              _ii_df_bind,
              (c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c16),
              (ts, dur, id_0, id_1, id_2, id_3, id_4, id_5, id_6, id_7, id_8, id_9, id_10, id_11,
               id_12, id_13, id_14))
          __intrinsic_token_apply_and_prefix!(_ii_df_bind, (c17, c18, c19, c20), $agg_columns)
);

-- The parts of a table's intervals inside one interval. Columns: id, ts and dur (ns).
CREATE PERFETTO MACRO _interval_intersect_single(
    -- Start of the interval (ns).
    ts Expr,
    -- Duration of the interval (ns).
    dur Expr,
    -- Intervals.
    t TableOrSubquery
)
RETURNS TableOrSubquery AS (
    SELECT both.id_1 AS id, both.ts, both.dur
    FROM _interval_intersect!(((SELECT 0 AS id, $ts AS ts, $dur AS dur), $t), ()) AS both
);

-- Intervals under the names id, ts and dur, with their partitions.
CREATE PERFETTO MACRO _interval_rename_cols(
    -- Intervals.
    tab TableOrSubquery,
    -- Columns of partitions in parentheses.
    agg_columns ColumnNameList,
    -- Column of the id.
    id_col ColumnName,
    -- Column of the start (ns).
    ts_col ColumnName,
    -- Column of the duration (ns).
    dur_col ColumnName
)
RETURNS TableOrSubquery AS (
    SELECT $ts_col AS ts, $dur_col AS dur, $id_col AS id
           __intrinsic_token_apply_prefix!(_ii_df_select, $agg_columns, $agg_columns)
    FROM $tab
);

-- _interval_intersect of two tables whose columns have other names. Columns: ts and dur (ns), id_0,
-- id_1, the partitions.
CREATE PERFETTO MACRO _interval_intersect_with_col_names(
    -- First table.
    tab1 TableOrSubquery,
    -- Column of the id in the first table.
    id_col1 ColumnName,
    -- Column of the start (ns) in the first table.
    ts_col1 ColumnName,
    -- Column of the duration (ns) in the first table.
    dur_col1 ColumnName,
    -- Second table.
    tab2 TableOrSubquery,
    -- Column of the id in the second table.
    id_col2 ColumnName,
    -- Column of the start (ns) in the second table.
    ts_col2 ColumnName,
    -- Column of the duration (ns) in the second table.
    dur_col2 ColumnName,
    -- Columns of partitions in parentheses, the same in both tables.
    agg_columns ColumnNameList
)
RETURNS TableOrSubquery AS (
    _interval_intersect!(
        (_interval_rename_cols!($tab1, $agg_columns, $id_col1, $ts_col1, $dur_col1),
         _interval_rename_cols!($tab2, $agg_columns, $id_col2, $ts_col2, $dur_col2)),
        $agg_columns)
);

-- Cuts the time wherever an interval begins or ends, and lists the intervals of each piece.
-- Columns: ts and dur (ns) of the piece; group_id: its number, from 1; id: an interval that covers
-- the piece, or that has ended just where the piece begins; interval_ends_at_ts: 1 in the latter
-- case. Takes O(n log n) and the rows of the result.
CREATE PERFETTO MACRO interval_self_intersect(
    -- Intervals.
    intervals TableOrSubquery
)
RETURNS TableOrSubquery AS (
    WITH __cut AS (
        SELECT ts FROM $intervals UNION SELECT ts + dur FROM $intervals
    ),
    __piece AS (
        SELECT row_number() OVER by_ts AS id, ts, ifnull(lead(ts) OVER by_ts - ts, 0) AS dur
        FROM __cut
        WINDOW by_ts AS (ORDER BY ts)
    )
    SELECT both.ts, both.dur, both.id_0 AS group_id, both.id_1 AS id, 0 AS interval_ends_at_ts
    FROM _interval_intersect!((__piece, $intervals), ()) AS both
    WHERE both.dur > 0
    UNION ALL
    SELECT ended.ts, __piece.dur, __piece.id, ended.id, 1
    FROM (SELECT DISTINCT id, ts + dur AS ts FROM $intervals) AS ended
    JOIN __piece ON __piece.ts = ended.ts
);
