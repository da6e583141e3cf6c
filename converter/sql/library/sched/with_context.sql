-- SPDX-License-Identifier: Apache-2.0
--
-- Times on processors with threads and processes.

INCLUDE PERFETTO MODULE std.thread.with_context;

-- Each time that a thread ran, with the thread and its process. Every row has a row in thread_state
-- whose state is Running.
CREATE PERFETTO VIEW sched_with_thread_process(
    -- Row, see sched.
    id ID(sched.id),
    -- When the thread began to run (ns).
    ts TIMESTAMP,
    -- For how long (ns); -1: until the end of the trace.
    dur DURATION,
    -- Thread.
    utid JOINID(thread.id),
    -- Name of the thread.
    thread_name STRING,
    -- Process.
    upid JOINID(process.id),
    -- Name of the process.
    process_name STRING,
    -- Processor.
    cpu LONG,
    -- State that the thread went into: sched_state_to_human_readable_string() of sched.states
    -- explains it.
    end_state STRING,
    -- The kernel's priority of the thread.
    priority LONG
) AS
SELECT s.id, s.ts, s.dur, h.utid, h.upid, h.thread_name, h.process_name, s.cpu, s.end_state,
       s.priority
FROM sched s JOIN _thread_with_process h ON h.utid = s.utid;
