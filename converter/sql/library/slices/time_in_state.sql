-- SPDX-License-Identifier: Apache-2.0
--
-- States of threads during their slices.

INCLUDE PERFETTO MODULE intervals.intersect;
INCLUDE PERFETTO MODULE slices.with_context;

-- How long the thread was in each state during a slice. Traces without scheduling have no rows.
CREATE PERFETTO TABLE thread_slice_time_in_state(
    -- Slice.
    id JOINID(slice.id),
    -- Name of the slice.
    name STRING,
    -- Thread.
    utid JOINID(thread.id),
    -- Name of the thread.
    thread_name STRING,
    -- Process.
    upid JOINID(process.id),
    -- Name of the process.
    process_name STRING,
    -- State, see thread_state; sched_state_to_human_readable_string() of sched.states explains it.
    state STRING,
    -- 1: the thread waited for a device. NULL: not known, or not in the state D.
    io_wait BOOL,
    -- Function of the kernel that the thread waited in, if the state is D and the trace knows.
    blocked_function STRING,
    -- Duration (ns).
    dur DURATION
) AS
SELECT s.id, s.name, s.utid, s.thread_name, s.upid, s.process_name, part.state, part.io_wait,
       part.blocked_function, part.dur
FROM (
    SELECT both.id_0 AS id, t.state, t.io_wait, t.blocked_function, sum(both.dur) AS dur
    FROM _interval_intersect!(
        ((SELECT id, ts, dur, utid FROM thread_slice WHERE dur > 0 AND utid > 0),
         (SELECT id, ts, dur, utid FROM thread_state
          WHERE dur > 0 AND utid IN (_threads_with_slices!()))),
        (utid)) AS both
    JOIN thread_state t ON t.id = both.id_1
    GROUP BY both.id_0, t.state, t.io_wait, t.blocked_function
) AS part
JOIN thread_slice s ON s.id = part.id
ORDER BY s.id;
