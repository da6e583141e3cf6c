-- SPDX-License-Identifier: Apache-2.0
--
-- Use of the processors by each process.

INCLUDE PERFETTO MODULE linux.cpu.utilization.thread_cpu;

-- Use by one process in each period.
CREATE PERFETTO FUNCTION cpu_process_utilization_per_period(
  -- Size of a period (ns).
  interval LONG,
  -- Process.
  upid JOINID(process.id)
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
FROM _cpu_avg_utilization_per_period!($interval, (
  SELECT s.ts, s.ts_end FROM thread t JOIN sched s ON s.utid = t.utid
  WHERE t.upid = $upid AND NOT t.is_idle
));

-- Use by one process in each second.
CREATE PERFETTO FUNCTION cpu_process_utilization_per_second(
  -- Process.
  upid JOINID(process.id)
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
FROM cpu_process_utilization_per_period(1000000000, $upid);

-- The use of processors by each process.
CREATE PERFETTO TABLE cpu_cycles_per_process(
  -- Process.
  upid JOINID(process.id),
  -- Cycles of the processors, in thousandths.
  millicycles LONG,
  -- Cycles of the processors, in millions.
  megacycles LONG,
  -- How long its threads ran (ns).
  runtime DURATION,
  -- Lowest frequency (kHz).
  min_freq LONG,
  -- Highest frequency (kHz).
  max_freq LONG,
  -- Average frequency (kHz).
  avg_freq LONG
) AS
SELECT t.upid, _cpu_cycle_totals!(runtime)
FROM cpu_cycles_per_thread_per_cpu r JOIN thread t ON t.utid = r.utid
WHERE t.upid IS NOT NULL GROUP BY t.upid;

-- The use of processors by each process in an interval.
CREATE PERFETTO FUNCTION cpu_cycles_per_process_in_interval(
  -- Start of the interval (ns).
  ts TIMESTAMP,
  -- Length of the interval (ns).
  dur LONG
)
RETURNS TABLE(
  -- Process.
  upid JOINID(process.id),
  -- Cycles of the processors, in thousandths.
  millicycles LONG,
  -- Cycles of the processors, in millions.
  megacycles LONG,
  -- How long its threads ran (ns).
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
SELECT upid, millicycles, megacycles, runtime, awake_runtime, min_freq, max_freq, avg_freq
FROM (
  SELECT upid, _cpu_cycle_sums!(iif(freq IS NOT NULL, dur, NULL)),
         sum(_awake_time!(ts, dur)) AS awake_runtime
  FROM (
    SELECT t.upid, r.ts, r.dur, r.freq
    FROM _cpu_freq_per_thread_in_interval($ts, $dur) r JOIN thread t ON t.utid = r.utid
  )
  GROUP BY upid
);

-- Use by each process in an interval.
CREATE PERFETTO FUNCTION cpu_process_utilization_in_interval(
  -- Start of the interval (ns).
  ts TIMESTAMP,
  -- Length of the interval (ns).
  dur LONG
)
RETURNS TABLE(
  -- Process.
  upid JOINID(process.id),
  -- Name of the process.
  process_name STRING,
  -- How long the process ran, without the time in which the device was suspended (ns).
  awake_dur LONG,
  -- Share of all processors' time in which the device was awake (percent).
  awake_utilization DOUBLE,
  -- Share of one processor's time: 100 for each processor that was busy all the time (percent).
  awake_unnormalized_utilization DOUBLE
) AS
SELECT r.upid, p.name AS process_name, r.awake_runtime AS awake_dur,
  round(100.0 * r.awake_runtime / _awake_time!($ts, $dur) / (SELECT max(cpu) + 1 FROM cpu), 6)
    AS awake_utilization,
  round(100.0 * r.awake_runtime / _awake_time!($ts, $dur), 6) AS awake_unnormalized_utilization
FROM cpu_cycles_per_process_in_interval($ts, $dur) r JOIN process p ON p.upid = r.upid;
