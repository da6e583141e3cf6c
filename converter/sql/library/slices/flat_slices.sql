-- SPDX-License-Identifier: Apache-2.0
--
-- Slices of threads without nesting.

INCLUDE PERFETTO MODULE intervals.overlap;
INCLUDE PERFETTO MODULE slices.with_context;

-- The times in which a slice of a thread was the innermost one. At most one slice of a track is
-- open at any time, and none where the track has no slice.
CREATE PERFETTO TABLE _slice_flattened(
    -- Slice that was innermost.
    slice_id JOINID(slice.id),
    -- From when on (ns).
    ts TIMESTAMP,
    -- For how long (ns).
    dur DURATION,
    -- How many slices are around the slice.
    depth LONG,
    -- Name of the slice.
    name STRING,
    -- Outermost slice around the slice.
    root_id JOINID(slice.id),
    -- Track.
    track_id JOINID(track.id),
    -- Thread.
    utid JOINID(thread.id),
    -- Number of the thread in the system.
    tid LONG,
    -- Name of the thread.
    thread_name STRING,
    -- Process.
    upid JOINID(process.id),
    -- Number of the process in the system.
    pid LONG,
    -- Name of the process.
    process_name STRING
) AS
WITH RECURSIVE root AS (
    SELECT id, ts, dur FROM slice WHERE parent_id IS NULL
),
inside(root_id, id, parent_id, ts, dur) AS (
    SELECT root.id, s.id, s.parent_id, s.ts, s.dur FROM root JOIN slice s ON s.parent_id = root.id
    UNION ALL
    SELECT inside.root_id, s.id, s.parent_id, s.ts, s.dur
    FROM inside JOIN slice s ON s.parent_id = inside.id
)
SELECT flat.id AS slice_id, flat.ts, flat.dur, s.depth, s.name, flat.root_id, s.track_id, s.utid,
       s.tid, s.thread_name, s.upid, s.pid, s.process_name
FROM _intervals_flatten!(_intervals_merge_root_and_children!(root, inside)) AS flat
JOIN thread_slice s ON s.id = flat.id;

CREATE PERFETTO INDEX _slice_flattened_by_slice ON _slice_flattened(slice_id);
CREATE PERFETTO INDEX _slice_flattened_by_ts ON _slice_flattened(ts);
