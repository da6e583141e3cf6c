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
SELECT c0 AS id, c1 AS prev_runnable_id, c2 AS prev_wakeup_runnable_id
FROM __intrinsic_table_ptr((
    SELECT __intrinsic_previous_runnable_agg(
               id, utid, state = 'Running',
               waker_utid IS NOT NULL AND ifnull(irq_context, 0) != 1)
    FROM (
        SELECT id, utid, state, waker_utid, irq_context
        FROM thread_state
        WHERE state GLOB 'R*' AND dur != -1
        ORDER BY id
    )))
WHERE __intrinsic_table_ptr_bind(c0, 'id')
  AND __intrinsic_table_ptr_bind(c1, 'prev_runnable_id')
  AND __intrinsic_table_ptr_bind(c2, 'prev_wakeup_runnable_id');
