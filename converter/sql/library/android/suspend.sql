-- SPDX-License-Identifier: Apache-2.0
--
-- Times at which devices were suspended, and awake.

-- Suspended times of the trace. `next_ts` is the start of the machine's next suspended time.
CREATE PERFETTO TABLE _suspend_slice AS
WITH
  found AS (
    SELECT t.name = 'Suspend/Resume Minimal' AS is_minimal, t.machine_id, s.ts, s.dur
    FROM track t JOIN slice s ON s.track_id = t.id
    WHERE t.name IN ('Suspend/Resume Minimal', 'Suspend/Resume Latency')
      AND (t.name = 'Suspend/Resume Minimal'
        OR s.dur != -1 AND s.name IN ('syscore_resume(0)', 'timekeeping_freeze(0)'))
  )
SELECT machine_id, ts, dur,
  lead(ts, 1, trace_end()) OVER (PARTITION BY machine_id ORDER BY ts) AS next_ts
FROM found f
WHERE is_minimal OR NOT EXISTS (
  SELECT 1 FROM found m WHERE m.is_minimal AND m.machine_id = f.machine_id);

-- Whether each device was awake, from the start of the trace to its end. Machines other than the
-- recording one are left out if they were never suspended: their state is not known.
CREATE PERFETTO TABLE android_suspend_state(
  -- Start (ns).
  ts TIMESTAMP,
  -- Duration (ns).
  dur DURATION,
  -- awake or suspended.
  power_state STRING,
  -- Machine.
  machine_id JOINID(machine.id)
) AS
WITH
  -- If a suspended time overlaps the next suspended time, the trace has lost its end.
  suspended AS (SELECT machine_id, ts, ts + dur AS end_ts FROM _suspend_slice
                WHERE ts + dur <= next_ts),
  edge AS (
    SELECT machine_id, ts, end_ts, lag(end_ts, 1, trace_start()) OVER w AS before_ts,
      lead(ts) OVER w IS NULL AS is_last
    FROM suspended WINDOW w AS (PARTITION BY machine_id ORDER BY ts)
  ),
  state(ts, end_ts, machine_id, power_state) AS (
    SELECT ts, end_ts, machine_id, 'suspended' FROM edge
    UNION ALL
    SELECT before_ts, ts, machine_id, 'awake' FROM edge
    UNION ALL
    SELECT end_ts, trace_end(), machine_id, 'awake' FROM edge WHERE is_last
    UNION ALL
    SELECT trace_start(), trace_end(), 0, 'awake'
    WHERE NOT EXISTS (SELECT 1 FROM suspended WHERE ifnull(machine_id, 0) = 0)
  )
SELECT ts, end_ts - ts AS dur, ifnull(machine_id, 0) AS machine_id, power_state
FROM state WHERE end_ts > ts ORDER BY ts;

-- The duration of an interval for a clock that stops while the device is suspended.
CREATE PERFETTO FUNCTION _extract_duration_without_suspend(
  -- Start (ns).
  ts TIMESTAMP,
  -- Duration (ns).
  dur DURATION
)
-- Duration (ns).
RETURNS LONG AS
SELECT to_monotonic($ts + $dur) - to_monotonic($ts);
