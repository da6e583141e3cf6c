-- SPDX-License-Identifier: Apache-2.0
--
-- States of threads in words.

-- The name of a thread's state. States without a name are returned as they are.
CREATE PERFETTO FUNCTION sched_state_to_human_readable_string(
    -- State as in thread_state and sched: R, S, D, ...
    short_name STRING
)
-- Name of the state.
RETURNS STRING AS
SELECT CASE $short_name
    WHEN 'R' THEN 'Runnable'
    WHEN 'R+' THEN 'Runnable (Preempted)'
    WHEN 'S' THEN 'Sleeping'
    WHEN 'D' THEN 'Uninterruptible Sleep'
    WHEN 'I' THEN 'Idle'
    WHEN 'P' THEN 'Parked'
    WHEN 'T' THEN 'Stopped'
    WHEN 't' THEN 'Traced'
    WHEN 'W' THEN 'Waking'
    WHEN 'K' THEN 'Wakekill'
    WHEN 'N' THEN 'No Load'
    WHEN 'X' THEN 'Exit (Dead)'
    WHEN 'Z' THEN 'Exit (Zombie)'
    WHEN 'x' THEN 'Task Dead'
    ELSE $short_name
END;

-- The name of a thread's state, and whether the thread waited for a device.
CREATE PERFETTO FUNCTION sched_state_io_to_human_readable_string(
    -- State as in thread_state and sched.
    sched_state STRING,
    -- 1: the thread waited for a device; 0: for something else; NULL: not known.
    io_wait BOOL
)
-- Name of the state, followed by (IO) or (non-IO) if io_wait is known.
RETURNS STRING AS
SELECT ifnull(sched_state_to_human_readable_string($sched_state), '')
       || ifnull(CASE $io_wait WHEN 0 THEN ' (non-IO)' WHEN 1 THEN ' (IO)' END, '');
