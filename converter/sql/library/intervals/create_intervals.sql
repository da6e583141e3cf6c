-- SPDX-License-Identifier: Apache-2.0
--
-- Intervals from the times at which things begin and end.

-- The times of a table as a sorted set.
CREATE PERFETTO MACRO __interval_times(source TableOrSubquery) RETURNS Expr
AS (SELECT __intrinsic_timestamp_set_agg(t.ts) FROM (SELECT ts FROM $source ORDER BY ts) AS t);

-- Pairs each start with the first end that is later than the start. Starts after the last end have
-- no interval; several starts may share an end. Columns: ts and dur (ns). O(n log n).
CREATE PERFETTO MACRO _interval_create(
    -- Starts: a column ts (ns), in any order.
    starts_table TableOrSubquery,
    -- Ends: a column ts (ns), in any order.
    ends_table TableOrSubquery
)
RETURNS TableOrSubquery AS (
    SELECT c0 AS ts, c1 AS dur
    FROM __intrinsic_table_ptr(__intrinsic_interval_create(
        __interval_times!($starts_table), __interval_times!($ends_table)))
    WHERE __intrinsic_table_ptr_bind(c0, 'ts') AND __intrinsic_table_ptr_bind(c1, 'dur')
);
