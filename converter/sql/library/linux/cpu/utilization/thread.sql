-- SPDX-License-Identifier: Apache-2.0
--
-- Use of the processors by each thread.

INCLUDE PERFETTO MODULE linux.cpu.utilization.thread_cpu;

-- Use by one thread in each period.
CREATE PERFETTO FUNCTION cpu_thread_utilization_per_period(
  -- Size of a period (ns).
  interval LONG,
  -- Thread.
  utid JOINID(thread.id)
)
RETURNS TABLE(
  -- Start of the period (ns).
  ts TIMESTAMP,
  -- Share of all processors' time: 0 to 1.
  utilization DOUBLE,
  -- How many processors were busy on average: 0 to their number.
  unnormalized_utilization DOUBLE
) AS
SELECT ts, utilization, unnormalized_utilization
FROM _cpu_avg_utilization_per_period!($interval, (SELECT ts, ts_end FROM sched WHERE utid = $utid));

-- Use by one thread in each second.
CREATE PERFETTO FUNCTION cpu_thread_utilization_per_second(
  -- Thread.
  utid JOINID(thread.id)
)
RETURNS TABLE(
  -- Start of the period (ns).
  ts TIMESTAMP,
  -- Share of all processors' time: 0 to 1.
  utilization DOUBLE,
  -- How many processors were busy on average: 0 to their number.
  unnormalized_utilization DOUBLE
) AS
SELECT ts, utilization, unnormalized_utilization
FROM cpu_thread_utilization_per_period(1000000000, $utid);

-- The use of processors by each thread.
CREATE PERFETTO TABLE cpu_cycles_per_thread(
  -- Thread.
  utid JOINID(thread.id),
  -- Cycles of the processors, in thousandths.
  millicycles LONG,
  -- Cycles of the processors, in millions.
  megacycles LONG,
  -- How long the thread ran (ns).
  runtime DURATION,
  -- Lowest frequency (kHz).
  min_freq LONG,
  -- Highest frequency (kHz).
  max_freq LONG,
  -- Average frequency (kHz).
  avg_freq LONG
) AS
SELECT utid, _cpu_cycle_totals!(runtime) FROM cpu_cycles_per_thread_per_cpu GROUP BY utid;

-- The use of processors by each thread in an interval.
CREATE PERFETTO FUNCTION cpu_cycles_per_thread_in_interval(
  -- Start of the interval (ns).
  ts TIMESTAMP,
  -- Length of the interval (ns).
  dur LONG
)
RETURNS TABLE(
  -- Thread.
  utid JOINID(thread.id),
  -- Cycles of the processors, in thousandths.
  millicycles LONG,
  -- Cycles of the processors, in millions.
  megacycles LONG,
  -- How long the thread ran (ns).
  runtime DURATION,
  -- runtime without the time in which the device was suspended (ns).
  awake_runtime DURATION,
  -- Lowest frequency (kHz).
  min_freq LONG,
  -- Highest frequency (kHz).
  max_freq LONG,
  -- Average frequency (kHz).
  avg_freq LONG
) AS
SELECT utid, millicycles, megacycles, runtime, awake_runtime, min_freq, max_freq, avg_freq
FROM (
  SELECT utid, _cpu_cycle_sums!(iif(freq IS NOT NULL, dur, NULL)),
         sum(_awake_time!(ts, dur)) AS awake_runtime
  FROM _cpu_freq_per_thread_in_interval($ts, $dur) GROUP BY utid
);

-- Use by each thread in an interval.
CREATE PERFETTO FUNCTION cpu_thread_utilization_in_interval(
  -- Start of the interval (ns).
  ts TIMESTAMP,
  -- Length of the interval (ns).
  dur LONG
)
RETURNS TABLE(
  -- Process of the thread.
  upid JOINID(process.id),
  -- Thread.
  utid JOINID(thread.id),
  -- Name of the thread.
  thread_name STRING,
  -- How long the thread ran, without the time in which the device was suspended (ns).
  awake_dur LONG,
  -- Share of all processors' time in which the device was awake (percent).
  awake_utilization DOUBLE,
  -- Share of one processor's time: 100 for each processor that was busy all the time (percent).
  awake_unnormalized_utilization DOUBLE
) AS
SELECT t.upid, r.utid, t.name AS thread_name, r.awake_runtime AS awake_dur,
  round(100.0 * r.awake_runtime / _awake_time!($ts, $dur) / (SELECT max(cpu) + 1 FROM cpu), 6)
    AS awake_utilization,
  round(100.0 * r.awake_runtime / _awake_time!($ts, $dur), 6) AS awake_unnormalized_utilization
FROM cpu_cycles_per_thread_in_interval($ts, $dur) r JOIN thread t ON t.utid = r.utid;
