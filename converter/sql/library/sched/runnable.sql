-- SPDX-License-Identifier: Apache-2.0
--
-- The state that a thread waited in before it ran.

-- For each time that a thread ran: the states in which the thread was ready before.
CREATE PERFETTO TABLE sched_previous_runnable_on_thread(
    -- State in which the thread ran.
    id JOINID(thread_state.id),
    -- Last state before in which the thread was ready (R or R+).
    prev_runnable_id JOINID(thread_state.id),
    -- Last state that began because a thread, and not an interrupt, woke this one.
    prev_wakeup_runnable_id JOINID(thread_state.id)
) AS
SELECT id, prev_runnable_id, prev_wakeup_runnable_id
FROM (
    SELECT id, state,
           max(iif(state != 'Running', id, NULL)) OVER so_far AS prev_runnable_id,
           max(iif(waker_utid IS NOT NULL AND ifnull(irq_context, 0) != 1, id, NULL)) OVER so_far
               AS prev_wakeup_runnable_id
    FROM thread_state
    WHERE state GLOB 'R*' AND dur != -1
    WINDOW so_far AS (PARTITION BY utid ORDER BY id ROWS UNBOUNDED PRECEDING)
)
WHERE state = 'Running'
ORDER BY id;
