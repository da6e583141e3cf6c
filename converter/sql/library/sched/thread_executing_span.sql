-- SPDX-License-Identifier: Apache-2.0
--
-- Spans in which threads were ready or ran between sleeps, who woke them, and the critical path:
-- the threads that a thread waited for, one after the other.
--
-- A span begins when another thread makes the thread ready, and ends when the thread sleeps until
-- another thread wakes it again. Sleeps that an interrupt ends belong to the span. The span's id is
-- that of its first row in thread_state.

INCLUDE PERFETTO MODULE intervals.intersect;
INCLUDE PERFETTO MODULE intervals.overlap;

-- 1 if the state belongs to a thread that has just been woken.
CREATE PERFETTO MACRO _is_runnable_state(
    -- State.
    state Expr
)
RETURNS Expr AS ($state = 'R');

-- States that begin because something woke the thread.
CREATE PERFETTO VIEW _runnable_state(
    -- State, see thread_state.
    id JOINID(thread_state.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- State.
    state STRING,
    -- Thread.
    utid JOINID(thread.id),
    -- State of the thread that woke this one.
    waker_id JOINID(thread_state.id),
    -- Thread that woke this one.
    waker_utid JOINID(thread.id),
    -- 1: an interrupt, or a device's answer, woke the thread.
    is_irq BOOL
) AS
SELECT id, ts, dur, state, utid, waker_id, waker_utid,
       iif(ifnull(irq_context, 0) = 0, ifnull(io_wait, 0), 1) AS is_irq
FROM thread_state
WHERE waker_id IS NOT NULL AND dur != -1;

-- The first state of each thread, if the thread was ready in this state.
CREATE PERFETTO VIEW _first_runnable_state(
    -- State, see thread_state.
    id JOINID(thread_state.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- State.
    state STRING,
    -- Thread.
    utid JOINID(thread.id),
    -- State of the thread that woke this one.
    waker_id JOINID(thread_state.id),
    -- Thread that woke this one.
    waker_utid JOINID(thread.id),
    -- 1: an interrupt, or a device's answer, woke the thread.
    is_irq BOOL
) AS
SELECT id, ts, dur, state, utid, waker_id, waker_utid,
       iif(ifnull(irq_context, 0) = 0, ifnull(io_wait, 0), 1) AS is_irq
FROM thread_state
WHERE id IN (SELECT min(id) FROM thread_state GROUP BY utid)
  AND dur != -1 AND _is_runnable_state!(state);

-- Sleeps: the states S, D and I.
CREATE PERFETTO VIEW _sleep_state(
    -- State, see thread_state.
    id JOINID(thread_state.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- State.
    state STRING,
    -- Function of the kernel that the thread slept in.
    blocked_function STRING,
    -- Thread.
    utid JOINID(thread.id)
) AS
SELECT id, ts, dur, state, blocked_function, utid
FROM thread_state
WHERE state IN ('S', 'D', 'I') AND dur != -1;

-- The end of each thread's last state that has ended.
CREATE PERFETTO VIEW _thread_end_ts(
    -- End (ns).
    end_ts TIMESTAMP,
    -- Thread.
    utid JOINID(thread.id)
) AS
SELECT ts + dur AS end_ts, utid
FROM (SELECT max(ts) AS ts, dur, utid FROM thread_state WHERE dur != -1 GROUP BY utid);

-- The first sleep of each thread that something ended.
CREATE PERFETTO VIEW _first_sleep_state(
    -- State, see thread_state.
    id JOINID(thread_state.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- State.
    state STRING,
    -- Function of the kernel that the thread slept in.
    blocked_function STRING,
    -- Thread.
    utid JOINID(thread.id)
) AS
SELECT min(s.id) AS id, s.ts, s.dur, s.state, s.blocked_function, s.utid
FROM _sleep_state s JOIN _runnable_state r ON r.utid = s.utid AND r.ts = s.ts + s.dur
GROUP BY s.utid;

-- Ends of sleeps, and the beginnings of threads.
CREATE PERFETTO VIEW _wakeup(
    -- State of the sleep; NULL: the thread began.
    state STRING,
    -- Function of the kernel that the thread slept in.
    blocked_function STRING,
    -- State in which the thread was ready afterwards.
    id JOINID(thread_state.id),
    -- Start of that state (ns).
    ts TIMESTAMP,
    -- Thread.
    utid JOINID(thread.id),
    -- State of the thread that woke this one.
    waker_id JOINID(thread_state.id),
    -- Thread that woke this one.
    waker_utid JOINID(thread.id),
    -- Start of the sleep (ns).
    prev_end_ts TIMESTAMP,
    -- 1: an interrupt, or a device's answer, woke the thread.
    is_irq BOOL,
    -- End of the thread's last state (ns).
    thread_end_ts TIMESTAMP
) AS
SELECT w.*, e.end_ts AS thread_end_ts
FROM (
    SELECT s.state, s.blocked_function, r.id, r.ts, r.utid, r.waker_id, r.waker_utid,
           s.ts AS prev_end_ts, r.is_irq
    FROM _sleep_state s JOIN _runnable_state r ON r.utid = s.utid AND r.ts = s.ts + s.dur
    UNION ALL
    SELECT NULL, NULL, id, ts, utid, waker_id, waker_utid, NULL, is_irq
    FROM _first_runnable_state
) AS w
LEFT JOIN _thread_end_ts e ON e.utid = w.utid;

-- The span of each time on a processor.
CREATE PERFETTO VIEW _wakeup_map(
    -- First state of the span.
    id JOINID(thread_state.id),
    -- State in which the thread ran: the one that others name as their waker.
    waker_id JOINID(thread_state.id)
) AS
SELECT id, waker_id
FROM (
    SELECT max(iif(_is_runnable_state!(state), id, NULL)) OVER (PARTITION BY utid ORDER BY id)
               AS id,
           id AS waker_id, state
    FROM (
        SELECT id, utid, state FROM thread_state WHERE state = 'Running' AND dur != -1
        UNION
        SELECT id, utid, state FROM _runnable_state
        UNION
        SELECT id, utid, state FROM _first_runnable_state
    )
)
WHERE state = 'Running'
ORDER BY waker_id;

-- All spans with the spans that woke them.
CREATE PERFETTO TABLE _wakeup_graph(
    -- Thread.
    utid JOINID(thread.id),
    -- Span: its first state.
    id JOINID(thread_state.id),
    -- Span that woke the thread; NULL: not known, or an interrupt woke the thread.
    waker_id JOINID(thread_state.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- State of the sleep before; IRQ: an interrupt ended the sleep.
    idle_state STRING,
    -- Function of the kernel that the thread slept in.
    idle_reason STRING,
    -- Duration of the sleep (ns).
    idle_dur DURATION,
    -- Span of the same thread before.
    prev_id JOINID(thread_state.id),
    -- Duration (ns).
    dur DURATION
) AS
SELECT c1 AS utid, c0 AS id, c2 AS waker_id, c3 AS ts,
       CASE WHEN c4 = 0 THEN 'IRQ' WHEN c4 > 0 THEN char(c4) END AS idle_state,
       sleep.blocked_function AS idle_reason, c6 AS idle_dur, c7 AS prev_id, c8 AS dur
FROM __intrinsic_table_ptr((
    SELECT __intrinsic_wakeup_spans_agg(
               id, utid, ts, dur, state, waker_id,
               iif(ifnull(irq_context, 0) = 0, ifnull(io_wait, 0), 1))
    FROM (
        SELECT id, utid, ts, dur, state, waker_id, irq_context, io_wait
        FROM thread_state
        ORDER BY id
    )))
LEFT JOIN thread_state AS sleep ON sleep.id = c5
WHERE __intrinsic_token_apply_and!(
    _ii_df_bind, (c0, c1, c2, c3, c4, c5, c6, c7, c8),
    (id, utid, waker_id, ts, idle_state, idle_id, idle_dur, prev_id, dur));

-- The spans that cover intervals. Columns: root_node_id, a span; capacity, the distance of its id
-- from the id of the span before.
CREATE PERFETTO MACRO _intervals_to_roots(
    -- Intervals: ts, dur (ns), utid.
    _source_table TableOrSubQuery,
    -- Spans, see _wakeup_graph.
    _node_table TableOrSubQuery
)
RETURNS TableOrSubQuery AS (
    WITH __span AS (SELECT id, utid, ts, prev_id FROM $_node_table),
    __bounds AS (
        SELECT utid, min(ts) AS first_ts, max(ts) AS last_ts FROM __span GROUP BY utid
    ),
    __covered AS (
        SELECT s.utid,
               max(n.id) FILTER (WHERE n.ts <= max(s.ts, b.first_ts)) AS first_id,
               min(n.id) FILTER (WHERE n.ts >= min(s.ts + s.dur, b.last_ts)) AS last_id
        FROM $_source_table AS s
        JOIN __bounds b ON b.utid = s.utid
        JOIN __span n ON n.utid = s.utid
        GROUP BY s.utid, s.ts, s.dur
    )
    SELECT DISTINCT n.id AS root_node_id, n.id - ifnull(n.prev_id, n.id) AS capacity
    FROM __covered c JOIN __span n ON n.utid = c.utid AND n.id BETWEEN c.first_id AND c.last_id
);

-- Spans as one value, for the functions of critical paths.
CREATE PERFETTO MACRO _wakeup_graph_value(
    -- Spans, see _wakeup_graph.
    _node_table TableOrSubQuery
)
RETURNS TableOrSubQuery AS (
    SELECT __intrinsic_wakeup_graph_agg(
               n.id, n.utid, n.ts, n.dur, n.idle_dur, n.waker_id, n.prev_id)
    FROM $_node_table AS n
);

-- The critical paths of spans, with all levels. Columns: root_id, the first span; depth: 0 is the
-- root; the span of depth n waited for the span of depth n + 1; ts and dur (ns); id, the span at
-- this level; parent_id, the span one level above.
CREATE PERFETTO MACRO _critical_path_with_depth_by_roots(
    -- Spans to begin with: root_node_id.
    _roots_table TableOrSubQuery,
    -- Spans, see _wakeup_graph.
    _node_table TableOrSubQuery
)
RETURNS TableOrSubQuery AS (
    SELECT c0 AS root_id, c1 AS depth, c2 AS ts, c3 AS dur, c4 AS id, c6 AS parent_id
    FROM __intrinsic_table_ptr(__intrinsic_critical_path_walk(
        (_wakeup_graph_value!($_node_table)),
        (SELECT __intrinsic_array_agg(r.root_node_id) FROM $_roots_table AS r)))
    WHERE __intrinsic_token_apply_and!(
        _ii_df_bind, (c0, c1, c2, c3, c4, c5, c6),
        (root_id, depth, ts, dur, blocker_id, blocker_utid, parent_id))
);

-- The rows of _critical_path_by_roots, with the threads: root_utid and utid.
CREATE PERFETTO MACRO _critical_path_flat_by_roots(
    -- Spans to begin with: root_node_id.
    _roots_table TableOrSubQuery,
    -- Spans, see _wakeup_graph.
    _node_table TableOrSubQuery
)
RETURNS TableOrSubQuery AS (
    SELECT c0 AS root_id, c1 AS root_utid, c2 AS id, c3 AS utid, c4 AS ts, c5 AS dur
    FROM __intrinsic_table_ptr(__intrinsic_critical_path_flat(
        (_wakeup_graph_value!($_node_table)),
        (SELECT __intrinsic_array_agg(r.root_node_id) FROM $_roots_table AS r)))
    WHERE __intrinsic_token_apply_and!(
        _ii_df_bind, (c0, c1, c2, c3, c4, c5), (root_id, root_utid, id, utid, ts, dur))
);

-- The critical paths of spans: at each time the deepest level. Columns: root_id, the first span;
-- id, the span for which it waited; ts and dur (ns).
CREATE PERFETTO MACRO _critical_path_by_roots(
    -- Spans to begin with: root_node_id.
    _roots_table TableOrSubQuery,
    -- Spans, see _wakeup_graph.
    _node_table TableOrSubQuery
)
RETURNS TableOrSubQuery AS (
    SELECT root_id, id, ts, dur
    FROM _critical_path_flat_by_roots!($_roots_table, $_node_table)
);

-- The critical paths of threads in intervals. Columns: root_utid, the thread; utid, the thread for
-- which it waited, or the thread itself; root_id and id, their spans; ts and dur (ns); interval_ts
-- and interval_dur (ns), the interval. For many spans see _critical_path_by_roots.
CREATE PERFETTO MACRO _critical_path_by_intervals(
    -- Intervals: ts, dur (ns), utid.
    _intervals_table TableOrSubQuery,
    -- Spans, see _wakeup_graph.
    _node_table TableOrSubQuery
)
RETURNS TableOrSubQuery AS (
    WITH __asked AS (
        SELECT row_number() OVER (ORDER BY ts) AS id, ts, dur, utid AS root_utid
        FROM $_intervals_table
    ),
    __step AS MATERIALIZED (
        SELECT row_number() OVER (ORDER BY path.ts) AS id, path.ts, path.dur, path.root_id,
               path.id AS span_id, path.root_utid, path.utid
        FROM _critical_path_flat_by_roots!(
            _intervals_to_roots!($_intervals_table, $_node_table), $_node_table) AS path
    )
    SELECT DISTINCT s.root_utid, s.utid, s.root_id, s.span_id AS id, both.ts, both.dur,
           a.ts AS interval_ts, a.dur AS interval_dur
    FROM _interval_intersect!((__step, __asked), (root_utid)) AS both
    JOIN __step s ON s.id = both.id_0
    JOIN __asked a ON a.id = both.id_1
);

-- The critical path of a thread in an interval.
CREATE PERFETTO FUNCTION _thread_executing_span_critical_path(
    -- Thread.
    root_utid JOINID(thread.id),
    -- Start of the interval (ns).
    ts TIMESTAMP,
    -- Duration of the interval (ns).
    dur DURATION
)
RETURNS TABLE(
    -- Thread.
    root_utid JOINID(thread.id),
    -- Span of the thread.
    root_id LONG,
    -- Span that the thread waited for, or its own.
    id LONG,
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns).
    dur DURATION,
    -- Thread of the span.
    utid JOINID(thread.id)
) AS
SELECT root_utid, root_id, id, ts, dur, utid
FROM _critical_path_by_intervals!(
    (SELECT $root_utid AS utid, $ts AS ts, $dur AS dur), _wakeup_graph);
