-- SPDX-License-Identifier: Apache-2.0
--
-- Intervals for the times that a table of intervals leaves out.

INCLUDE PERFETTO MODULE std.metasql.unparenthesize;

-- NULL for an item of a list.
CREATE PERFETTO MACRO __fill_gaps_null(item Expr) RETURNS Expr AS NULL;

-- Adds rows to a table of intervals until each group covers the time from the start to the end of
-- the trace. Added rows have NULL in the columns of data. A row without a ts declares a group. A
-- group without other rows, and an empty table, become one row for the whole trace. The intervals
-- of one group must not overlap. Columns: ts and dur (ns), the group's columns, the columns of
-- data. Sorted by ts.
CREATE PERFETTO MACRO _intervals_fill_gaps(
    -- Columns of the group in parentheses; (NULL): all rows are one group.
    group_cols ColumnNameList,
    -- Columns of data in parentheses.
    data_cols ColumnNameList,
    -- Intervals: ts and dur (ns), and the columns named above.
    data TableOrSubquery
)
RETURNS TableOrSubquery AS (
    WITH __given AS (
        SELECT ts, dur, metasql_unparenthesize_exprlist!($group_cols),
               metasql_unparenthesize_exprlist!($data_cols)
        FROM $data
    ),
    -- Each interval with the end of the interval before.
    __placed AS (
        SELECT ts,
               lag(ts + dur, 1, trace_start()) OVER (
                   PARTITION BY metasql_unparenthesize_exprlist!($group_cols) ORDER BY ts
               ) AS free_ts,
               metasql_unparenthesize_exprlist!($group_cols)
        FROM __given
        WHERE ts IS NOT NULL
    ),
    __rest AS (
        SELECT ifnull(max(ts + dur), trace_start()) AS free_ts,
               metasql_unparenthesize_exprlist!($group_cols)
        FROM __given
        GROUP BY metasql_unparenthesize_exprlist!($group_cols)
    ),
    __covered AS (
        SELECT * FROM __given
        UNION ALL
        SELECT free_ts, ts - free_ts, metasql_unparenthesize_exprlist!($group_cols),
               __intrinsic_token_apply!(__fill_gaps_null, $data_cols)
        FROM __placed
        UNION ALL
        SELECT free_ts, trace_end() - free_ts, metasql_unparenthesize_exprlist!($group_cols),
               __intrinsic_token_apply!(__fill_gaps_null, $data_cols)
        FROM __rest
        UNION ALL
        SELECT trace_start(), trace_dur(), __intrinsic_token_apply!(__fill_gaps_null, $group_cols),
               __intrinsic_token_apply!(__fill_gaps_null, $data_cols)
        WHERE NOT EXISTS (SELECT 1 FROM __given)
    )
    SELECT * FROM __covered WHERE dur > 0 ORDER BY ts
);
