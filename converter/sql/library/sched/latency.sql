-- SPDX-License-Identifier: Apache-2.0
--
-- How long threads that were ready waited for a processor.

INCLUDE PERFETTO MODULE sched.runnable;

-- The rows of thread_state and sched that describe the same time on a processor.
CREATE PERFETTO VIEW _sched_with_thread_state_join(
    -- State Running.
    thread_state_id JOINID(thread_state.id),
    -- Row of sched for this state.
    sched_id JOINID(sched.id)
) AS
SELECT t.id AS thread_state_id, s.id AS sched_id
FROM sched s JOIN thread_state t ON t.utid = s.utid AND t.ts = s.ts AND t.dur = s.dur;

-- How long a thread had been ready each time before it ran.
CREATE PERFETTO TABLE sched_latency_for_running_interval(
    -- State in which the thread ran.
    thread_state_id JOINID(thread_state.id),
    -- Row of sched for this state.
    sched_id JOINID(sched.id),
    -- Thread.
    utid JOINID(thread.id),
    -- State in which the thread was ready before.
    runnable_latency_id JOINID(thread_state.id),
    -- Duration of that state (ns).
    latency_dur LONG
) AS
SELECT r.id AS thread_state_id, same.sched_id, ready.utid, ready.id AS runnable_latency_id,
       ready.dur AS latency_dur
FROM sched_previous_runnable_on_thread r
JOIN thread_state ready ON ready.id = r.prev_runnable_id
JOIN _sched_with_thread_state_join same ON same.thread_state_id = r.id;
