-- SPDX-License-Identifier: Apache-2.0
--
-- States of threads during flat slices, see slices.flat_slices.

INCLUDE PERFETTO MODULE slices.flat_slices;

-- The times in which a slice was innermost, and its thread in a state.
CREATE VIRTUAL TABLE __slice_flattened_state
USING SPAN_JOIN(_slice_flattened PARTITIONED utid, thread_state PARTITIONED utid);

-- The innermost slices and the thread's states during a slice, and in the slices inside it.
CREATE PERFETTO FUNCTION _get_flattened_thread_state(
    -- Slice; NULL: the first one of the thread.
    slice_id JOINID(slice.id),
    -- Thread; NULL: that of the slice.
    utid JOINID(thread.id)
)
RETURNS TABLE(
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- Thread.
    utid JOINID(thread.id),
    -- Number of slices around the slice.
    depth LONG,
    -- Name of the slice.
    name STRING,
    -- Slice that was innermost.
    slice_id JOINID(slice.id),
    -- Track.
    track_id JOINID(track.id),
    -- Processor, if the thread ran.
    cpu LONG,
    -- State, see thread_state.
    state STRING,
    -- 1: the thread waited for a device.
    io_wait LONG,
    -- Function of the kernel that the thread waited in.
    blocked_function STRING,
    -- Thread that woke this one.
    waker_utid JOINID(thread.id),
    -- 1: the thread was woken by an interrupt.
    irq_context LONG
) AS
SELECT f.ts, f.dur, f.utid, f.depth, f.name, f.slice_id, f.track_id, f.cpu, f.state, f.io_wait,
       f.blocked_function, f.waker_utid, f.irq_context
FROM (
    SELECT s.ts, s.dur, s.track_id
    FROM slice s JOIN thread_track t ON t.id = s.track_id
    WHERE s.id = ifnull($slice_id, s.id) AND t.utid = ifnull($utid, t.utid)
    ORDER BY s.id
    LIMIT 1
) AS chosen
JOIN __slice_flattened_state f
WHERE f.track_id = chosen.track_id AND f.ts >= chosen.ts AND f.ts < chosen.ts + chosen.dur;

-- The time of a thread in a state.
CREATE PERFETTO MACRO __flattened_sum(condition Expr)
RETURNS Expr AS sum(dur) FILTER (WHERE $condition);

-- Sums over the innermost slices: the time (ns) of the thread in each state. A row for each slice.
CREATE PERFETTO FUNCTION _get_flattened_thread_state_aggregated(
    -- Slice; NULL: the first one of the thread.
    slice_id JOINID(slice.id),
    -- Thread; NULL: that of the slice.
    utid JOINID(thread.id)
)
RETURNS TABLE(
    -- Slice.
    slice_id JOINID(slice.id),
    -- Name of the slice.
    slice_name STRING,
    -- State D, not for a device (ns).
    uninterruptible_sleep_nonio LONG,
    -- State D, for a device (ns).
    uninterruptible_sleep_io LONG,
    -- State R (ns).
    runnable LONG,
    -- State S (ns).
    sleeping LONG,
    -- State T (ns).
    stopped LONG,
    -- State t (ns).
    traced LONG,
    -- State X (ns).
    exit_dead LONG,
    -- State Z (ns).
    exit_zombie LONG,
    -- State x (ns).
    task_dead LONG,
    -- State K (ns).
    wake_kill LONG,
    -- State W (ns).
    waking LONG,
    -- State P (ns).
    parked LONG,
    -- State N (ns).
    no_load LONG,
    -- State R+ (ns).
    runnable_preempted LONG,
    -- State Running (ns).
    running LONG,
    -- State I (ns).
    idle LONG,
    -- All states together (ns).
    dur DURATION,
    -- Number of slices around the slice.
    depth LONG
) AS
SELECT slice_id, name AS slice_name,
       __flattened_sum!(state = 'D' AND io_wait = 0) AS uninterruptible_sleep_nonio,
       __flattened_sum!(state = 'D' AND io_wait = 1) AS uninterruptible_sleep_io,
       __flattened_sum!(state = 'R') AS runnable,
       __flattened_sum!(state = 'S') AS sleeping,
       __flattened_sum!(state = 'T') AS stopped,
       __flattened_sum!(state = 't') AS traced,
       __flattened_sum!(state = 'X') AS exit_dead,
       __flattened_sum!(state = 'Z') AS exit_zombie,
       __flattened_sum!(state = 'x') AS task_dead,
       __flattened_sum!(state = 'K') AS wake_kill,
       __flattened_sum!(state = 'W') AS waking,
       __flattened_sum!(state = 'P') AS parked,
       __flattened_sum!(state = 'N') AS no_load,
       __flattened_sum!(state = 'R+') AS runnable_preempted,
       __flattened_sum!(state = 'Running') AS running,
       __flattened_sum!(state = 'I') AS idle,
       sum(dur) AS dur, depth
FROM _get_flattened_thread_state($slice_id, $utid)
GROUP BY slice_id;
