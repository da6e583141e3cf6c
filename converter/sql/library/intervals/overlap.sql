-- SPDX-License-Identifier: Apache-2.0
--
-- Intervals that overlap: how many do, what they cover together, which of them is innermost.

INCLUDE PERFETTO MODULE intervals.intersect;
INCLUDE PERFETTO MODULE std.metasql.unparenthesize;

-- How many intervals are open, as a counter. Columns: ts (ns), at which an interval begins or ends;
-- value: intervals that are open from then on. Sorted by ts.
CREATE PERFETTO MACRO intervals_overlap_count(
    -- Intervals.
    segments TableOrSubquery,
    -- Column of the start (ns).
    ts_column ColumnName,
    -- Column of the duration (ns); -1: the interval does not end.
    dur_column ColumnName
)
RETURNS TableOrSubquery AS (
    SELECT c0 AS ts, c1 AS value
    FROM __intrinsic_table_ptr((
        SELECT __intrinsic_overlap_count_agg(segment.$ts_column, segment.$dur_column)
        FROM $segments AS segment
    ))
    WHERE __intrinsic_table_ptr_bind(c0, 'ts') AND __intrinsic_table_ptr_bind(c1, 'value')
);

-- How many intervals of each group are open, as counters. Columns: ts (ns), value, group_name.
-- Sorted by ts.
CREATE PERFETTO MACRO intervals_overlap_count_by_group(
    -- Intervals.
    segments TableOrSubquery,
    -- Column of the start (ns).
    ts_column ColumnName,
    -- Column of the duration (ns); -1: the interval does not end.
    dur_column ColumnName,
    -- Column of the group.
    group_column ColumnName
)
RETURNS TableOrSubquery AS (
    SELECT ts, sum(sum(step)) OVER (PARTITION BY group_name ORDER BY ts) AS value, group_name
    FROM (
        SELECT $ts_column AS ts, 1 AS step, $group_column AS group_name FROM $segments
        UNION ALL
        SELECT $ts_column + $dur_column, -1, $group_column FROM $segments WHERE $dur_column != -1
    )
    GROUP BY group_name, ts
    ORDER BY ts
);

-- 1 if two of the intervals overlap. Intervals that do not end (dur -1) are left out.
CREATE PERFETTO MACRO _intervals_overlap_in_table(
    -- Intervals: ts and dur (ns).
    intervals TableOrSubquery
)
RETURNS Expr AS (
    SELECT EXISTS (
        SELECT 1
        FROM (
            SELECT lag(ts + dur) OVER (ORDER BY ts) > ts AS overlaps
            FROM $intervals WHERE dur != -1
        )
        WHERE overlaps
    )
);

-- Puts intervals and their roots into one table, for _intervals_flatten. A root without children
-- is a row without an interval. Columns: root_id, root_ts and root_dur (ns) of the root; id,
-- parent_id, ts and dur (ns) of the interval. Intervals and roots of 0 ns are left out.
CREATE PERFETTO MACRO _intervals_merge_root_and_children(
    -- Roots: id, ts, dur (ns).
    roots_table TableOrSubquery,
    -- Intervals below roots: root_id, id, parent_id, ts, dur (ns).
    children_table TableOrSubquery
)
RETURNS TableOrSubquery AS (
    WITH __root AS (SELECT id, ts, dur FROM $roots_table WHERE dur > 0),
    __child AS (SELECT root_id, id, parent_id, ts, dur FROM $children_table WHERE dur > 0)
    SELECT __root.id AS root_id, __root.ts AS root_ts, __root.dur AS root_dur, __child.id,
           __child.parent_id, __child.ts, __child.dur
    FROM __child JOIN __root ON __root.id = __child.root_id
    UNION ALL
    SELECT id, ts, dur, NULL, NULL, NULL, NULL
    FROM __root
    WHERE id IN (SELECT id FROM __root EXCEPT SELECT parent_id FROM __child)
);

-- Puts roots, and intervals that lack the id of their root, into one table. A root gets the
-- intervals that overlap the root and have the same key. Columns: ts and dur (ns) of the time in
-- common, id, parent_id (the root's id if the interval has no parent), root_id, root_ts and
-- root_dur (ns), the key.
CREATE PERFETTO MACRO _intervals_merge_root_and_children_by_intersection(
    -- Roots: id, ts, dur (ns), the key.
    roots_table TableOrSubquery,
    -- Intervals: id, parent_id, ts, dur (ns), the key.
    children_table TableOrSubquery,
    -- Column of the key.
    key ColumnName
)
RETURNS TableOrSubquery AS (
    WITH __root AS (SELECT * FROM $roots_table WHERE dur > 0),
    __child AS (SELECT * FROM $children_table WHERE dur > 0)
    SELECT both.ts, both.dur, __child.id, ifnull(__child.parent_id, both.id_1) AS parent_id,
           __root.id AS root_id, __root.ts AS root_ts, __root.dur AS root_dur, both.$key
    FROM _interval_intersect!((__child, __root), ($key)) AS both
    JOIN __child ON __child.id = both.id_0
    JOIN __root ON __root.id = both.id_1
);

-- Cuts trees of intervals into pieces that do not overlap: each piece belongs to the interval that
-- is innermost at its time. The sum of an interval's pieces is the time in which no interval below
-- is open. Columns: root_id, id (the root itself outside of its intervals), ts and dur (ns). The
-- first and the last piece of a root may have 0 ns.
CREATE PERFETTO MACRO _intervals_flatten(
    -- See _intervals_merge_root_and_children. No interval is longer than its parent.
    children_with_roots_table TableOrSubquery
)
RETURNS TableOrSubquery AS (
    WITH __given AS (
        SELECT root_id, root_ts, root_dur, id, parent_id, ts, dur
        FROM $children_with_roots_table
        WHERE root_dur > 0 AND ifnull(dur, 1) > 0
    ),
    -- The interval that is innermost from ts on: an interval that begins there, else the parent of
    -- an interval that ends. max() selects the row of id.
    __turn AS (
        SELECT root_id, root_ts, root_dur, ts, id, max(begins)
        FROM (
            SELECT root_id, root_ts, root_dur, ts, id, 1 AS begins
            FROM __given WHERE id IS NOT NULL
            UNION ALL
            SELECT root_id, root_ts, root_dur, ts + dur, ifnull(parent_id, root_id), 0
            FROM __given WHERE id IS NOT NULL
        )
        GROUP BY root_id, ts
    ),
    __piece AS (
        SELECT root_id, root_ts, root_dur, id, ts,
               lead(ts) OVER (PARTITION BY root_id ORDER BY ts) AS end_ts
        FROM __turn
    ),
    __whole AS (
        SELECT root_id, root_ts, root_dur, min(ts) AS ts, max(end_ts) AS end_ts
        FROM __piece WHERE end_ts > ts
        GROUP BY root_id
    )
    SELECT root_id, id, ts, end_ts - ts AS dur FROM __piece WHERE end_ts > ts
    UNION ALL
    SELECT root_id, root_id, root_ts, ts - root_ts FROM __whole
    UNION ALL
    SELECT root_id, root_id, end_ts, root_ts + root_dur - end_ts FROM __whole
    UNION ALL
    SELECT root_id, root_id, root_ts, root_dur FROM __given WHERE id IS NULL GROUP BY root_id
);

-- The fewest intervals that cover the same time. Intervals that touch become one, too. Columns: ts
-- and dur (ns). Sorted by ts. If epsilon is 0 and an interval does not end (dur -1), this interval
-- and all intervals that touch it or begin later are left out.
CREATE PERFETTO MACRO interval_merge_overlapping(
    -- Intervals: ts and dur (ns).
    intervals TableOrSubquery,
    -- How long a gap (ns) may be for both sides to become one interval, usually 0.
    epsilon Expr
)
RETURNS TableOrSubquery AS (
    WITH __given AS (
        SELECT ts, iif(dur + ($epsilon) = -1, 0x7fffffffffffffff, ts + dur) AS end_ts
        FROM $intervals
    ),
    __numbered AS (
        SELECT ts, end_ts, sum(is_first) OVER (ORDER BY ts ROWS UNBOUNDED PRECEDING) AS number
        FROM (
            SELECT ts, end_ts,
                   ifnull(ts - ($epsilon) > max(end_ts) OVER (
                       ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                   ), 1) AS is_first
            FROM __given
        )
    )
    SELECT min(ts) AS ts, max(end_ts) - min(ts) AS dur
    FROM __numbered
    GROUP BY number
    HAVING max(end_ts) < 0x7fffffffffffffff
);

-- The fewest intervals of each partition that cover the same time. Columns: ts and dur (ns), the
-- partitions. Intervals that do not end (dur -1) are left out.
CREATE PERFETTO MACRO interval_merge_overlapping_partitioned(
    -- Intervals: ts and dur (ns), the partitions.
    intervals TableOrSubquery,
    -- Columns of partitions in parentheses.
    partition_columns ColumnNameList
)
RETURNS TableOrSubquery AS (
    WITH __reach AS (
        SELECT ts, ts + dur AS end_ts, metasql_unparenthesize_exprlist!($partition_columns),
               max(ts + dur) OVER (
                   PARTITION BY metasql_unparenthesize_exprlist!($partition_columns)
                   ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
               ) AS reached_ts
        FROM $intervals
        WHERE dur >= 0
    ),
    __numbered AS (
        SELECT *, count(*) FILTER (WHERE ifnull(ts > reached_ts, 1)) OVER (
                      PARTITION BY metasql_unparenthesize_exprlist!($partition_columns)
                      ORDER BY ts ROWS UNBOUNDED PRECEDING
                  ) AS number
        FROM __reach
    )
    SELECT min(ts) AS ts, max(end_ts) - min(ts) AS dur,
           metasql_unparenthesize_exprlist!($partition_columns)
    FROM __numbered
    GROUP BY metasql_unparenthesize_exprlist!($partition_columns), number
);
