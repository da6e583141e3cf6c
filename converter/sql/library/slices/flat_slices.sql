-- SPDX-License-Identifier: Apache-2.0
--
-- Slices of threads without nesting.

INCLUDE PERFETTO MODULE intervals.overlap;
INCLUDE PERFETTO MODULE slices.with_context;

-- The times in which a slice of a thread was the innermost slice. At any time, a track has at most
-- one row.
CREATE PERFETTO TABLE _slice_flattened(
    -- Slice that was innermost.
    slice_id JOINID(slice.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- Number of slices around the slice.
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
SELECT flat.id AS slice_id, flat.ts, flat.dur, s.depth, s.name, flat.root_id, s.track_id, h.utid,
       h.tid, h.name AS thread_name, p.upid, p.pid, p.name AS process_name
FROM (
    SELECT c0 AS root_id, c1 AS id, c2 AS ts, c3 AS dur
    FROM __intrinsic_table_ptr((
        SELECT __intrinsic_slice_pieces_agg(id, track_id, ts, dur, depth)
        FROM slice WHERE track_id IN (SELECT id FROM thread_track)
    ))
    WHERE __intrinsic_table_ptr_bind(c0, 'root_id') AND __intrinsic_table_ptr_bind(c1, 'id')
      AND __intrinsic_table_ptr_bind(c2, 'ts') AND __intrinsic_table_ptr_bind(c3, 'dur')
) AS flat
CROSS JOIN slice s ON s.id = flat.id
CROSS JOIN thread_track t ON t.id = s.track_id
CROSS JOIN thread h ON h.utid = t.utid
LEFT JOIN process p ON p.upid = h.upid;

CREATE PERFETTO INDEX _slice_flattened_by_slice ON _slice_flattened(slice_id);
CREATE PERFETTO INDEX _slice_flattened_by_ts ON _slice_flattened(ts);
