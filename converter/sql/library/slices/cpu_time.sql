-- SPDX-License-Identifier: Apache-2.0
--
-- Processor time of slices.

INCLUDE PERFETTO MODULE intervals.intersect;
INCLUDE PERFETTO MODULE linux.cpu.utilization.slice;
INCLUDE PERFETTO MODULE slices.with_context;

-- How long the thread ran during a slice. Slices in which the thread did not run have no row, nor
-- do traces without scheduling.
CREATE PERFETTO TABLE thread_slice_cpu_time(
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
    -- Time on processors (ns).
    cpu_time LONG
) AS
WITH ran AS (
    SELECT id_0 AS id, sum(dur) AS cpu_time
    FROM _interval_intersect!(
        ((SELECT id, ts, dur, utid FROM thread_slice WHERE dur > 0 AND utid > 0),
         (SELECT id, ts, dur, utid FROM sched
          WHERE dur > 0 AND utid IN (_threads_with_slices!()))),
        (utid))
    GROUP BY id_0
)
SELECT s.id, s.name, s.utid, s.thread_name, s.upid, s.process_name, ran.cpu_time
FROM ran JOIN thread_slice s ON s.id = ran.id
ORDER BY s.id;

-- Cycles of processors during each slice.
CREATE PERFETTO VIEW thread_slice_cpu_cycles(
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
    -- Thousandths of cycles; NULL: the processors' frequency is not known.
    millicycles LONG,
    -- Millions of cycles; NULL: the processors' frequency is not known.
    megacycles LONG
) AS
SELECT id, name, utid, thread_name, upid, process_name, millicycles, megacycles
FROM cpu_cycles_per_thread_slice;
