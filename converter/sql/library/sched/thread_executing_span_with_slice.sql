-- SPDX-License-Identifier: Apache-2.0
--
-- The critical path of threads as stacks: the states and slices of each thread, and the states and
-- slices of the thread that it waited for.

INCLUDE PERFETTO MODULE intervals.intersect;
INCLUDE PERFETTO MODULE sched.thread_executing_span;
INCLUDE PERFETTO MODULE slices.flat_slices;

-- The critical paths of all spans, see _critical_path_by_roots.
CREATE PERFETTO TABLE _critical_path_all(
    -- Row, from 1.
    id LONG,
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- End (ns).
    ts_end TIMESTAMP,
    -- Thread that was waited for.
    utid JOINID(thread.id),
    -- Thread that waited.
    root_utid JOINID(thread.id)
) AS
SELECT row_number() OVER (ORDER BY path.ts) AS id, path.ts, path.dur, path.ts + path.dur AS ts_end,
       path.utid, path.root_utid
FROM _critical_path_flat_by_roots!(
    (SELECT id AS root_node_id FROM _wakeup_graph), _wakeup_graph) AS path
ORDER BY path.ts;

-- States of threads, with the names that the stacks use.
CREATE PERFETTO VIEW _span_thread_state_view(
    -- State, see thread_state.
    thread_state_id JOINID(thread_state.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- Thread.
    utid JOINID(thread.id),
    -- State.
    state STRING,
    -- Function of the kernel that the thread waited in.
    function STRING,
    -- 1: the thread waited for a device.
    io_wait LONG,
    -- Processor.
    cpu LONG
) AS
SELECT id AS thread_state_id, ts, dur, utid, state, blocked_function AS function, io_wait, cpu
FROM thread_state;

-- Flat slices, with the names that the stacks use.
CREATE PERFETTO VIEW _span_slice_view(
    -- Slice that was innermost.
    slice_id JOINID(slice.id),
    -- Number of slices around the slice.
    slice_depth LONG,
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- Thread.
    utid JOINID(thread.id)
) AS
SELECT slice_id, depth AS slice_depth, ts, dur, utid FROM _slice_flattened;

CREATE VIRTUAL TABLE _span_thread_state_slice_sp USING SPAN_LEFT_JOIN(
    _span_thread_state_view PARTITIONED utid, _span_slice_view PARTITIONED utid);

-- States of threads, cut at the times at which another slice becomes innermost.
CREATE PERFETTO TABLE _span_thread_state_slice(
    -- Row, from 1.
    id LONG,
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- End (ns).
    ts_end TIMESTAMP,
    -- Thread.
    utid JOINID(thread.id),
    -- State, see thread_state.
    thread_state_id JOINID(thread_state.id),
    -- State.
    state STRING,
    -- Function of the kernel that the thread waited in.
    function STRING,
    -- Processor.
    cpu LONG,
    -- 1: the thread waited for a device.
    io_wait LONG,
    -- Slice that was innermost.
    slice_id JOINID(slice.id),
    -- Number of slices around the slice.
    slice_depth LONG
) AS
SELECT row_number() OVER (ORDER BY ts) AS id, ts, dur, ts + dur AS ts_end, utid, thread_state_id,
       state, function, cpu, io_wait, slice_id, slice_depth
FROM _span_thread_state_slice_sp
WHERE dur > 0
ORDER BY ts;

-- The shared part of the two tables above.
CREATE PERFETTO TABLE _critical_path_thread_state_slice_raw(
    -- Row of _critical_path_all.
    cr_id LONG,
    -- Row of _span_thread_state_slice.
    th_id LONG,
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION
) AS
SELECT id_0 AS cr_id, id_1 AS th_id, ts, dur
FROM _interval_intersect!((_critical_path_all, _span_thread_state_slice), (utid));

-- The critical paths of all spans with the states and slices of the threads on the paths.
CREATE PERFETTO TABLE _critical_path_thread_state_slice(
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- Thread that was waited for.
    utid JOINID(thread.id),
    -- State of this thread, see thread_state.
    thread_state_id JOINID(thread_state.id),
    -- Name of this state.
    state STRING,
    -- Function of the kernel that this thread waited in.
    function STRING,
    -- Processor.
    cpu LONG,
    -- 1: this thread waited for a device.
    io_wait LONG,
    -- Slice of this thread that was innermost.
    slice_id JOINID(slice.id),
    -- Number of slices around the slice.
    slice_depth LONG,
    -- Thread that waited.
    root_utid JOINID(thread.id)
) AS
SELECT both.ts, both.dur, path.utid, t.thread_state_id, t.state, t.function, t.cpu, t.io_wait,
       t.slice_id, t.slice_depth, path.root_utid
FROM _critical_path_thread_state_slice_raw both
JOIN _critical_path_all path ON path.id = both.cr_id
JOIN _span_thread_state_slice t ON t.id = both.th_id;

CREATE VIRTUAL TABLE _self_sp USING SPAN_LEFT_JOIN(
    thread_state PARTITIONED utid, _slice_flattened PARTITIONED utid);

-- States and innermost slices of the thread itself.
CREATE PERFETTO VIEW _self_view(
    -- State, see thread_state.
    self_thread_state_id JOINID(thread_state.id),
    -- Slice that was innermost.
    self_slice_id JOINID(slice.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- Thread.
    root_utid JOINID(thread.id),
    -- State.
    self_state STRING,
    -- Function of the kernel that the thread waited in.
    self_function STRING,
    -- Processor.
    self_cpu LONG,
    -- 1: the thread waited for a device.
    self_io_wait LONG,
    -- Number of slices around the slice.
    self_slice_depth LONG
) AS
SELECT id AS self_thread_state_id, slice_id AS self_slice_id, ts, dur, utid AS root_utid,
       state AS self_state, blocked_function AS self_function, cpu AS self_cpu,
       io_wait AS self_io_wait, depth AS self_slice_depth
FROM _self_sp;

CREATE VIRTUAL TABLE _self_and_critical_path_sp USING SPAN_JOIN(
    _self_view PARTITIONED root_utid, _critical_path_thread_state_slice PARTITIONED root_utid);

-- The critical path of a thread in an interval as stacks: the rows with an equal ts are one stack,
-- from stack_depth 0 on. The thread's own state, function of the kernel, wait, process, thread and
-- slices come first. The rows of the thread for which it waited follow, and the processor is last.
-- Rows that are not enabled have a name of NULL.
CREATE PERFETTO FUNCTION _critical_path_stack(
    -- Thread.
    root_utid JOINID(thread.id),
    -- Start of the interval (ns).
    ts TIMESTAMP,
    -- Duration of the interval (ns).
    dur DURATION,
    -- 1: with the thread's process.
    enable_process_name LONG,
    -- 1: with the thread's name.
    enable_thread_name LONG,
    -- 1: with the thread's slices.
    enable_self_slice LONG,
    -- 1: with slices of the thread that was waited for.
    enable_critical_path_slice LONG
)
RETURNS TABLE(
    -- State or slice.
    id LONG,
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- Thread of the state or slice.
    utid JOINID(thread.id),
    -- Place in the stack.
    stack_depth LONG,
    -- The text that is shown.
    name STRING,
    -- thread_state or slice.
    table_name STRING,
    -- Thread.
    root_utid JOINID(thread.id)
) AS
WITH part AS MATERIALIZED (
    SELECT *, end_ts - ts AS dur
    FROM (
        SELECT max(ts, $ts) AS ts, min(ts + dur, $ts + $dur) AS end_ts, root_utid, utid,
               self_thread_state_id, self_state, self_function, self_io_wait, self_slice_id,
               self_slice_depth, thread_state_id, state, function, io_wait, slice_id, slice_depth,
               cpu
        FROM _self_and_critical_path_sp
        WHERE root_utid = $root_utid AND dur > 0
    )
    WHERE end_ts > ts
),
level(n) AS (VALUES (0), (1), (2), (3), (4)),
own AS MATERIALIZED (
    SELECT part.self_thread_state_id AS id, part.ts, part.dur, part.root_utid AS utid,
           level.n AS stack_depth,
           CASE level.n
               WHEN 0 THEN 'thread_state: ' || part.self_state
               WHEN 3 THEN iif($enable_process_name, 'process_name: ' || p.name, NULL)
               WHEN 4 THEN iif($enable_thread_name, 'thread_name: ' || t.name, NULL)
               ELSE iif(part.self_state GLOB 'R*', NULL,
                        iif(level.n = 1, 'kernel function: ' || part.self_function,
                            'io_wait: ' || part.self_io_wait))
           END AS name,
           'thread_state' AS table_name, part.root_utid
    FROM part JOIN level
    LEFT JOIN thread t ON t.utid = part.root_utid
    LEFT JOIN process p ON p.upid = t.upid
    WHERE level.n < 4 OR p.upid IS NOT NULL
    UNION ALL
    SELECT s.id, part.ts, part.dur, part.root_utid, s.depth + 5,
           iif($enable_self_slice, s.name, NULL), 'slice', part.root_utid
    FROM part JOIN ancestor_slice(part.self_slice_id) s
    WHERE s.dur != -1
    UNION ALL
    SELECT s.id, part.ts, part.dur, part.root_utid, part.self_slice_depth + 5,
           iif($enable_self_slice, s.name, NULL), 'slice', part.root_utid
    FROM part JOIN slice s ON s.id = part.self_slice_id
),
own_end AS MATERIALIZED (
    SELECT ts, max(stack_depth) + 1 AS depth FROM own GROUP BY ts
),
waited AS MATERIALIZED (
    SELECT part.*, own_end.depth
    FROM part JOIN own_end ON own_end.ts = part.ts
    WHERE part.utid != part.root_utid
),
other AS MATERIALIZED (
    SELECT w.thread_state_id AS id, w.ts, w.dur, w.utid, w.depth + level.n AS stack_depth,
           CASE level.n
               WHEN 0 THEN 'blocking thread_state: ' || w.state
               WHEN 1 THEN 'blocking process_name: ' || p.name
               WHEN 2 THEN 'blocking thread_name: ' || t.name
               WHEN 3 THEN 'blocking kernel_function: ' || w.function
               ELSE 'blocking io_wait: ' || w.io_wait
           END AS name,
           'thread_state' AS table_name, w.root_utid
    FROM waited w JOIN level
    JOIN thread t ON t.utid = w.utid
    LEFT JOIN process p ON p.upid = t.upid
    UNION ALL
    SELECT s.id, w.ts, w.dur, w.utid, s.depth + w.depth + 5,
           iif($enable_critical_path_slice, s.name, NULL), 'slice', w.root_utid
    FROM waited w JOIN ancestor_slice(w.slice_id) s
    WHERE s.dur != -1
    UNION ALL
    SELECT s.id, w.ts, w.dur, w.utid, w.slice_depth + w.depth + 5,
           iif($enable_critical_path_slice, s.name, NULL), 'slice', w.root_utid
    FROM waited w JOIN slice s ON s.id = w.slice_id
),
all_end AS (
    SELECT ts, max(depth) AS depth
    FROM (SELECT ts, stack_depth + 1 AS depth FROM other UNION ALL SELECT ts, depth FROM own_end)
    GROUP BY ts
)
SELECT * FROM own WHERE id IS NOT NULL
UNION ALL
SELECT * FROM other WHERE id IS NOT NULL
UNION ALL
SELECT part.thread_state_id, part.ts, part.dur, part.utid, all_end.depth, 'cpu: ' || part.cpu,
       'thread_state', part.root_utid
FROM part JOIN all_end ON all_end.ts = part.ts
WHERE part.thread_state_id IS NOT NULL AND 'Running' IN (part.state, part.self_state);

-- The critical path of a thread in an interval as stacks, with all rows enabled.
CREATE PERFETTO FUNCTION _thread_executing_span_critical_path_stack(
    -- Thread.
    root_utid JOINID(thread.id),
    -- Start of the interval (ns).
    ts TIMESTAMP,
    -- Duration of the interval (ns).
    dur DURATION
)
RETURNS TABLE(
    -- State or slice.
    id LONG,
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- Thread of the state or slice.
    utid JOINID(thread.id),
    -- Place in the stack.
    stack_depth LONG,
    -- The text that is shown.
    name STRING,
    -- thread_state or slice.
    table_name STRING,
    -- Thread.
    root_utid JOINID(thread.id)
) AS
SELECT * FROM _critical_path_stack($root_utid, $ts, $dur, 1, 1, 1, 1);

-- The stacks of _critical_path_stack summed up as a profile in pprof's format.
CREATE PERFETTO FUNCTION _critical_path_graph(
    -- Name of the outermost frame.
    graph_title STRING,
    -- Thread.
    root_utid JOINID(thread.id),
    -- Start of the interval (ns).
    ts TIMESTAMP,
    -- Duration of the interval (ns).
    dur DURATION,
    -- 1: with the thread's process.
    enable_process_name LONG,
    -- 1: with the thread's name.
    enable_thread_name LONG,
    -- 1: with the thread's slices.
    enable_self_slice LONG,
    -- 1: with slices of the thread that was waited for.
    enable_critical_path_slice LONG
)
RETURNS TABLE(
    -- Profile; its samples are durations (ns).
    pprof BYTES
) AS
WITH RECURSIVE frame AS MATERIALIZED (
    SELECT root_utid, ts, stack_depth, name,
           dur - ifnull(lead(dur) OVER (PARTITION BY root_utid, ts ORDER BY stack_depth), 0) AS dur
    FROM _critical_path_stack(
        $root_utid, $ts, $dur, $enable_process_name, $enable_thread_name, $enable_self_slice,
        $enable_critical_path_slice)
),
sample(root_utid, ts, stack_depth, dur, stack) AS (
    SELECT root_utid, ts, stack_depth, dur, cat_stacks($graph_title, name)
    FROM frame WHERE stack_depth = 0
    UNION ALL
    SELECT f.root_utid, f.ts, f.stack_depth, f.dur, cat_stacks(s.stack, f.name)
    FROM sample s JOIN frame f
    ON f.root_utid = s.root_utid AND f.ts = s.ts AND f.stack_depth = s.stack_depth + 1
)
SELECT experimental_profile(stack, 'duration', 'ns', dur) AS pprof FROM sample;

-- The critical path as a profile with all rows enabled.
CREATE PERFETTO FUNCTION _thread_executing_span_critical_path_graph(
    -- Name of the outermost frame.
    graph_title STRING,
    -- Thread.
    root_utid JOINID(thread.id),
    -- Start of the interval (ns).
    ts TIMESTAMP,
    -- Duration of the interval (ns).
    dur DURATION
)
RETURNS TABLE(
    -- Profile; its samples are durations (ns).
    pprof BYTES
) AS
SELECT * FROM _critical_path_graph($graph_title, $root_utid, $ts, $dur, 1, 1, 1, 1);
