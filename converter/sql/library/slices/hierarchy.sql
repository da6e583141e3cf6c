-- SPDX-License-Identifier: Apache-2.0
--
-- Slices around slices, and inside them. The functions ancestor_slice(id) and descendant_slice(id)
-- are built in.

-- A slice and the slices around it.
CREATE PERFETTO FUNCTION _slice_ancestor_and_self(
    -- Slice.
    slice_id JOINID(slice.id)
)
RETURNS TABLE(
    -- Slice.
    id JOINID(slice.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns); -1: the slice has not ended.
    dur DURATION,
    -- Track.
    track_id JOINID(track.id),
    -- Category.
    category STRING,
    -- Name.
    name STRING,
    -- Number of slices around this one.
    depth LONG,
    -- Slice right around this one.
    parent_id JOINID(slice.id),
    -- Arguments, see args.
    arg_set_id ARGSETID,
    -- Start on the thread's clock of processor time (ns).
    thread_ts TIMESTAMP,
    -- Processor time of the thread in the slice (ns).
    thread_dur LONG
) AS
SELECT id, ts, dur, track_id, category, name, depth, parent_id, arg_set_id, thread_ts, thread_dur
FROM slice WHERE id = $slice_id
UNION ALL
SELECT id, ts, dur, track_id, category, name, depth, parent_id, arg_set_id, thread_ts, thread_dur
FROM ancestor_slice($slice_id);

-- A slice and the slices inside it.
CREATE PERFETTO FUNCTION _slice_descendant_and_self(
    -- Slice.
    slice_id JOINID(slice.id)
)
RETURNS TABLE(
    -- Slice.
    id JOINID(slice.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns); -1: the slice has not ended.
    dur DURATION,
    -- Track.
    track_id JOINID(track.id),
    -- Category.
    category STRING,
    -- Name.
    name STRING,
    -- Number of slices around this one.
    depth LONG,
    -- Slice right around this one.
    parent_id JOINID(slice.id),
    -- Arguments, see args.
    arg_set_id ARGSETID,
    -- Start on the thread's clock of processor time (ns).
    thread_ts TIMESTAMP,
    -- Processor time of the thread in the slice (ns).
    thread_dur LONG
) AS
SELECT id, ts, dur, track_id, category, name, depth, parent_id, arg_set_id, thread_ts, thread_dur
FROM slice WHERE id = $slice_id
UNION ALL
SELECT id, ts, dur, track_id, category, name, depth, parent_id, arg_set_id, thread_ts, thread_dur
FROM descendant_slice($slice_id);

-- Leaves out slices that have NULL in a column. The nearest remaining slice around a slice becomes
-- its parent. If no slice around it remains, the outermost slice stays its parent. Columns: id,
-- parent_id, depth (the depth of the parent; 0 without a parent), the column.
CREATE PERFETTO MACRO _slice_remove_nulls_and_reparent(
    -- Slices: id, parent_id, depth, the column.
    slice_table TableOrSubquery,
    -- Column to look at.
    column_name ColumnName
)
RETURNS TableOrSubquery AS (
    WITH __kept AS MATERIALIZED (
        SELECT id, parent_id, depth, $column_name FROM $slice_table WHERE $column_name IS NOT NULL
    )
    SELECT id, parent_id, depth, $column_name FROM __kept WHERE depth = 0
    UNION ALL
    SELECT k.id, around.id, max(around.depth * (around.id IN (SELECT id FROM __kept))),
           k.$column_name
    FROM __kept AS k JOIN ancestor_slice(k.id) AS around
    GROUP BY k.id
);
