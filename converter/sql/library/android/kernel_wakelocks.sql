-- SPDX-License-Identifier: Apache-2.0
--
-- Locks that keep a device awake, held by the kernel and by native services.

INCLUDE PERFETTO MODULE android.suspend;
INCLUDE PERFETTO MODULE counters.intervals;

-- The time that each machine was awake before a state of android_suspend_state began: before_ns.
CREATE PERFETTO TABLE _awake_before AS
SELECT machine_id, ts, power_state = 'awake' AS is_awake,
       ifnull(sum(iif(power_state = 'awake', dur, 0)) OVER (
    PARTITION BY machine_id
    ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before_ns
FROM android_suspend_state;

CREATE PERFETTO INDEX _awake_before_ts ON _awake_before(machine_id, ts);

-- The time that a machine was awake from the start of the trace to a moment (ns); NULL if not
-- known.
CREATE PERFETTO FUNCTION _awake_until(machine_id LONG, ts TIMESTAMP)
RETURNS LONG AS
SELECT (
  SELECT before_ns + iif(is_awake, $ts - ts, 0) FROM _awake_before
  WHERE machine_id = ifnull($machine_id, 0) AND ts <= $ts ORDER BY ts DESC LIMIT 1);

-- Locks and how long they were held between two readings.
CREATE PERFETTO TABLE android_kernel_wakelocks(
  -- Begin, a reading (ns).
  ts TIMESTAMP,
  -- Until the next reading (ns).
  dur DURATION,
  -- The part of this time in which the device was awake (ns).
  awake_dur DURATION,
  -- Name of the lock.
  name STRING,
  -- kernel or native.
  type STRING,
  -- How long the lock was held (ns); NULL for the last reading.
  held_dur DURATION,
  -- Share of the time awake that the lock was held, 0 to 1.
  held_ratio DOUBLE
) AS
WITH
  reading AS (
    SELECT i.ts, i.dur, t.name, extract_arg(t.dimension_arg_set_id, 'wakelock_type') AS type,
      i.next_value - i.value AS held_dur,
      _awake_until(t.machine_id, i.ts + i.dur) - _awake_until(t.machine_id, i.ts) AS awake_dur
    FROM counter_leading_intervals!((
      SELECT c.id, c.ts, c.track_id, c.value
      FROM track t JOIN counter c ON c.track_id = t.id
      WHERE t.type = 'android_kernel_wakelock'
    )) i
    JOIN track t ON t.id = i.track_id
    WHERE i.dur > 0
  )
SELECT ts, dur, awake_dur, name, type, CAST(held_dur AS INTEGER) AS held_dur,
  max(0.0, min(1.0, held_dur / awake_dur)) AS held_ratio
FROM reading ORDER BY ts, name, type;
