-- SPDX-License-Identifier: Apache-2.0
--
-- Shares of idle states, from the sums that the kernel keeps of them (/sys/.../cpuidle).

-- Time that each processor spent in each state between two readings. C0 is the time that no other
-- state explains: the processor was at work.
CREATE PERFETTO TABLE linux_per_cpu_idle_time_in_state_counters(
  -- Time of the second reading (ns).
  ts TIMESTAMP,
  -- Machine.
  machine_id JOINID(machine.id),
  -- Name of the state.
  state STRING,
  -- Processor.
  cpu LONG,
  -- Share of the time between the readings (percent).
  idle_percentage DOUBLE,
  -- Time in the state (us).
  total_residency DOUBLE,
  -- Time between the readings (us).
  time_slice LONG
) AS
WITH
  reading AS (
    SELECT c.ts, t.machine_id, extract_arg(t.dimension_arg_set_id, 'state') AS state,
      extract_arg(t.dimension_arg_set_id, 'cpu') AS cpu, c.value - lag(c.value) OVER w AS residency,
      (c.ts - lag(c.ts) OVER w) / 1000 AS passed
    FROM track t JOIN counter c ON c.track_id = t.id
    WHERE t.type = 'cpu_idle_state'
    WINDOW w AS (PARTITION BY c.track_id ORDER BY c.ts)
  ),
  known AS (SELECT * FROM reading WHERE passed IS NOT NULL),
  awake AS (
    SELECT ts, machine_id, cpu, max(0, passed - sum(residency)) AS residency, passed
    FROM known GROUP BY ts, cpu, machine_id
  )
SELECT ts, machine_id, state, cpu, min(100, residency / passed * 100) AS idle_percentage,
  residency AS total_residency, passed AS time_slice
FROM known
UNION ALL
SELECT ts, machine_id, 'C0', cpu, residency / passed * 100, residency, passed FROM awake;

-- Time that all processors of a machine together spent in each state between two readings.
CREATE PERFETTO TABLE linux_cpu_idle_time_in_state_counters(
  -- Time of the second reading (ns).
  ts TIMESTAMP,
  -- Machine.
  machine_id JOINID(machine.id),
  -- Name of the state.
  state STRING,
  -- Share of the time between the readings (percent).
  idle_percentage DOUBLE,
  -- Time in the state, of all processors (us).
  total_residency DOUBLE,
  -- Time between the readings, of all processors (us).
  time_slice LONG
) AS
SELECT ts, machine_id, state,
       min(100, sum(total_residency) / sum(time_slice) * 100) AS idle_percentage,
  sum(total_residency) AS total_residency, sum(time_slice) AS time_slice
FROM linux_per_cpu_idle_time_in_state_counters GROUP BY ts, state, machine_id;
