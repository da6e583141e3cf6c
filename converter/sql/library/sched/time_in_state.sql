-- SPDX-License-Identifier: Apache-2.0
--
-- How long threads and processors were in each state.

INCLUDE PERFETTO MODULE intervals.intersect;

-- How long each thread was in each state, in the whole trace.
CREATE PERFETTO TABLE sched_time_in_state_for_thread(
    -- Thread.
    utid JOINID(thread.id),
    -- Sum of all its states (ns).
    total_runtime LONG,
    -- State, see thread_state.
    state STRING,
    -- Time in the state (ns).
    time_in_state LONG,
    -- Share of time_in_state in total_runtime, rounded down (percent).
    percentage_in_state LONG
) AS
SELECT utid, total_runtime, state, time_in_state,
       time_in_state * 100 / total_runtime AS percentage_in_state
FROM (
    SELECT utid, sum(sum(dur)) OVER (PARTITION BY utid) AS total_runtime, state,
           sum(dur) AS time_in_state
    FROM thread_state
    GROUP BY utid, state
);

-- A state's share of a thread's time in percent.
CREATE PERFETTO MACRO _case_for_state(
    -- State.
    state Expr
)
RETURNS Expr AS max(percentage_in_state) FILTER (WHERE state = $state);

-- The states of each thread in percent of its time, rounded down. NULL: never in this state.
CREATE PERFETTO TABLE sched_percentage_of_time_in_state(
    -- Thread.
    utid JOINID(thread.id),
    -- On a processor (%).
    running LONG,
    -- Ready, R (%).
    runnable LONG,
    -- Ready, but interrupted by another thread, R+ (%).
    runnable_preempted LONG,
    -- Asleep, S (%).
    sleeping LONG,
    -- Asleep, cannot be interrupted, D (%).
    uninterruptible_sleep LONG,
    -- T, t, X, Z, x, I, K, W, P and N together (%).
    other LONG
) AS
SELECT utid, _case_for_state!('Running') AS running, _case_for_state!('R') AS runnable,
       _case_for_state!('R+') AS runnable_preempted, _case_for_state!('S') AS sleeping,
       _case_for_state!('D') AS uninterruptible_sleep,
       sum(time_in_state) FILTER (WHERE state IN ('I', 'K', 'N', 'P', 'T', 'W', 'X', 'Z', 't', 'x'))
           * 100 / total_runtime AS other
FROM sched_time_in_state_for_thread
GROUP BY utid;

-- The states of a thread in an interval, the longest first. The function looks at all states of the
-- thread; for many slices see slices.time_in_state.
CREATE PERFETTO FUNCTION sched_time_in_state_for_thread_in_interval(
    -- Start of the interval (ns).
    ts TIMESTAMP,
    -- Duration of the interval (ns).
    dur DURATION,
    -- Thread.
    utid JOINID(thread.id)
)
RETURNS TABLE(
    -- State, see thread_state.
    state STRING,
    -- 1: the thread waited for a device; NULL: not known, or not in the state D.
    io_wait BOOL,
    -- Function of the kernel that the thread waited in.
    blocked_function LONG,
    -- Duration (ns).
    dur DURATION
) AS
SELECT t.state, t.io_wait, t.blocked_function, sum(part.dur) AS dur
FROM _interval_intersect_single!(
    $ts, $dur, (SELECT id, ts, dur FROM thread_state WHERE utid = $utid AND dur > 0)) AS part
JOIN thread_state t ON t.id = part.id
GROUP BY t.state, t.io_wait, t.blocked_function
ORDER BY 4 DESC;

-- The states of a thread in an interval, by processor, the longest first.
CREATE PERFETTO FUNCTION sched_time_in_state_and_cpu_for_thread_in_interval(
    -- Start of the interval (ns).
    ts TIMESTAMP,
    -- Duration of the interval (ns).
    dur DURATION,
    -- Thread.
    utid JOINID(thread.id)
)
RETURNS TABLE(
    -- State, see thread_state.
    state STRING,
    -- 1: the thread waited for a device; NULL: not known, or not in the state D.
    io_wait BOOL,
    -- Processor; NULL: the thread did not run.
    cpu LONG,
    -- Function of the kernel that the thread waited in.
    blocked_function LONG,
    -- Duration (ns).
    dur DURATION
) AS
SELECT t.state, t.io_wait, t.cpu, t.blocked_function, sum(part.dur) AS dur
FROM _interval_intersect_single!(
    $ts, $dur, (SELECT id, ts, dur FROM thread_state WHERE utid = $utid AND dur > 0)) AS part
JOIN thread_state t ON t.id = part.id
GROUP BY t.state, t.io_wait, t.cpu, t.blocked_function
ORDER BY 5 DESC;

-- How long a processor's threads ran in an interval, by the state that they went into afterwards.
CREATE PERFETTO FUNCTION sched_time_in_state_for_cpu_in_interval(
    -- Processor.
    cpu LONG,
    -- Start of the interval (ns).
    ts TIMESTAMP,
    -- Duration of the interval (ns).
    dur LONG
)
RETURNS TABLE(
    -- State after the thread ran, see sched.
    end_state STRING,
    -- Duration (ns).
    dur LONG
) AS
SELECT s.end_state, sum(part.dur) AS dur
FROM _interval_intersect_single!(
    $ts, $dur, (SELECT id, ts, dur FROM sched WHERE cpu = $cpu AND dur != -1)) AS part
JOIN sched s ON s.id = part.id
GROUP BY s.end_state;
