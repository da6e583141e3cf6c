-- SPDX-License-Identifier: Apache-2.0
--
-- How many threads were in a state, and how many processors were busy, as counters.

INCLUDE PERFETTO MODULE intervals.overlap;

-- How many threads were ready to run (R).
CREATE PERFETTO TABLE sched_runnable_thread_count(
    -- Start (ns).
    ts TIMESTAMP,
    -- Threads that were ready until the next row.
    runnable_thread_count LONG
) AS
SELECT ts, value AS runnable_thread_count
FROM intervals_overlap_count!((SELECT ts, dur FROM thread_state WHERE state = 'R'), ts, dur);

-- How many threads slept and could not be interrupted (D).
CREATE PERFETTO TABLE sched_uninterruptible_sleep_thread_count(
    -- Start (ns).
    ts TIMESTAMP,
    -- Threads in the state D until the next row.
    uninterruptible_sleep_thread_count LONG
) AS
SELECT ts, value AS uninterruptible_sleep_thread_count
FROM intervals_overlap_count!((SELECT ts, dur FROM thread_state WHERE state = 'D'), ts, dur);

-- How many processors ran something else than their idle task.
CREATE PERFETTO TABLE sched_active_cpu_count(
    -- Start (ns).
    ts TIMESTAMP,
    -- Processors that were busy until the next row.
    active_cpu_count LONG
) AS
SELECT ts, value AS active_cpu_count
FROM intervals_overlap_count!(
    (SELECT s.ts, s.dur FROM sched s
     WHERE s.utid NOT IN (SELECT utid FROM thread WHERE is_idle)), ts, dur);
