-- SPDX-License-Identifier: Apache-2.0
--
-- Intervals as a coarse picture: for each piece of time of one length, the group that has most of
-- it.

INCLUDE PERFETTO MODULE intervals.intersect;

-- The number of buckets that the intervals of each partition need. Columns: the partition,
-- trace_min_ts and trace_max_ts (ns), its bounds; bucket_duration_ns; bucket_count.
CREATE PERFETTO MACRO _mipmap_bucket_metadata(
    -- Intervals: ts, dur (ns), the partition.
    _source_table TableOrSubQuery,
    -- Column of the partition.
    _partition_column ColumnName,
    -- Duration of a bucket (ns).
    _bucket_duration_ns Expr
)
RETURNS TableOrSubQuery AS (
    SELECT $_partition_column, min(ts) AS trace_min_ts, max(ts + dur) AS trace_max_ts,
           $_bucket_duration_ns AS bucket_duration_ns,
           (max(ts + dur) - min(ts) + $_bucket_duration_ns - 1) / $_bucket_duration_ns
               AS bucket_count
    FROM $_source_table
    GROUP BY $_partition_column
);

-- The buckets of each partition, from its first interval on; at least one. Columns: id, from 1; the
-- partition; bucket_index, from 0 in its partition; ts and dur (ns).
CREATE PERFETTO MACRO _mipmap_buckets_table(
    -- Intervals: ts, dur (ns), the partition.
    _source_table TableOrSubQuery,
    -- Column of the partition.
    _partition_column ColumnName,
    -- Duration of a bucket (ns).
    _bucket_duration_ns Expr
)
RETURNS TableOrSubQuery AS (
    WITH RECURSIVE __bucket($_partition_column, bucket_index, ts, dur, bucket_count) AS (
        SELECT $_partition_column, 0, trace_min_ts, bucket_duration_ns, bucket_count
        FROM _mipmap_bucket_metadata!($_source_table, $_partition_column, $_bucket_duration_ns)
        UNION ALL
        SELECT $_partition_column, bucket_index + 1, ts + dur, dur, bucket_count
        FROM __bucket
        WHERE bucket_index + 1 < bucket_count
    )
    SELECT row_number() OVER (ORDER BY $_partition_column, bucket_index) AS id,
           $_partition_column, bucket_index, cast_int!(ts) AS ts, dur
    FROM __bucket
);

-- One interval for each row of buckets in which the same group has most of the time. If two groups
-- have the same time, the group that began first wins. Columns: the partition, id (the least id of
-- the group's intervals), ts and dur (ns), group_hash. Sorted by ts.
CREATE PERFETTO MACRO _mipmap_merged(
    -- Intervals: id, ts, dur (ns), the partition, group_hash.
    _source_slices_with_ids TableOrSubQuery,
    -- Buckets, see _mipmap_buckets_table.
    _buckets TableOrSubQuery,
    -- Column of the partition.
    _partition_column ColumnName,
    -- Duration of a bucket (ns).
    _bucket_duration_ns Expr
)
RETURNS TableOrSubQuery AS (
    WITH __share AS (
        SELECT b.$_partition_column, b.bucket_index, b.ts, s.group_hash, min(s.id) AS id,
               row_number() OVER (
                   PARTITION BY b.$_partition_column, b.bucket_index
                   ORDER BY sum(both.dur) DESC, min(s.ts), s.group_hash
               ) AS place
        FROM _interval_intersect!(
            ($_buckets, $_source_slices_with_ids), ($_partition_column)) AS both
        JOIN $_buckets AS b ON b.id = both.id_0
        JOIN $_source_slices_with_ids AS s ON s.id = both.id_1
        GROUP BY b.$_partition_column, b.bucket_index, b.ts, s.group_hash
    ),
    __first AS (
        SELECT *, group_hash IS NOT lag(group_hash) OVER (
                      PARTITION BY $_partition_column ORDER BY bucket_index
                  ) AS is_new
        FROM __share WHERE place = 1
    ),
    __island AS (
        SELECT *, sum(is_new) OVER (
                      PARTITION BY $_partition_column ORDER BY bucket_index ROWS UNBOUNDED PRECEDING
                  ) AS number
        FROM __first
    )
    SELECT $_partition_column, min(id) AS id, cast_int!(min(ts)) AS ts,
           (max(bucket_index) - min(bucket_index) + 1) * $_bucket_duration_ns AS dur, group_hash
    FROM __island
    GROUP BY $_partition_column, number, group_hash
    ORDER BY 3
);
