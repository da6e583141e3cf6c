-- SPDX-License-Identifier: Apache-2.0
--
-- Use of the processors by everything together, as /proc/stat has it.

INCLUDE PERFETTO MODULE linux.cpu.utilization.thread_cpu;

-- Use in each period.
CREATE PERFETTO FUNCTION cpu_utilization_per_period(
  -- Size of a period (ns).
  interval LONG
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
  SELECT s.ts, s.ts_end FROM sched s
  WHERE s.utid NOT IN (SELECT t.utid FROM thread t WHERE t.is_idle)
));

-- Use in each second.
CREATE PERFETTO TABLE cpu_utilization_per_second(
  -- Start of the second (ns).
  ts TIMESTAMP,
  -- Share of all processors' time: 0 to 1.
  utilization DOUBLE,
  -- How many processors were busy on average: 0 to their number.
  unnormalized_utilization DOUBLE
) AS
SELECT ts, utilization, unnormalized_utilization FROM cpu_utilization_per_period(1000000000);

-- The use of processors in the whole trace: one row.
CREATE PERFETTO TABLE cpu_cycles(
  -- Cycles of the processors, in thousandths.
  millicycles LONG,
  -- Cycles of the processors, in millions.
  megacycles LONG,
  -- How long threads ran (ns).
  runtime DURATION,
  -- Lowest frequency (kHz).
  min_freq LONG,
  -- Highest frequency (kHz).
  max_freq LONG,
  -- Average frequency (kHz).
  avg_freq LONG
) AS
SELECT _cpu_cycle_totals!(runtime) FROM cpu_cycles_per_thread_per_cpu;

-- The use of processors in an interval: one row.
CREATE PERFETTO FUNCTION cpu_cycles_in_interval(
  -- Start of the interval (ns).
  ts TIMESTAMP,
  -- Length of the interval (ns).
  dur LONG
)
RETURNS TABLE(
  -- Cycles of the processors, in thousandths.
  millicycles LONG,
  -- Cycles of the processors, in millions.
  megacycles LONG,
  -- How long threads ran (ns).
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
SELECT millicycles, megacycles, runtime, awake_runtime, min_freq, max_freq, avg_freq
FROM (
  SELECT _cpu_cycle_sums!(iif(freq IS NOT NULL, dur, NULL)),
         sum(_awake_time!(ts, dur)) AS awake_runtime
  FROM _cpu_freq_per_thread_in_interval($ts, $dur)
);

-- Use in an interval: one row.
CREATE PERFETTO FUNCTION cpu_utilization_in_interval(
  -- Start of the interval (ns).
  ts TIMESTAMP,
  -- Length of the interval (ns).
  dur LONG
)
RETURNS TABLE(
  -- How long threads ran, without the time in which the device was suspended (ns).
  awake_dur LONG,
  -- Share of all processors' time in which the device was awake (percent).
  awake_utilization DOUBLE,
  -- Share of one processor's time: 100 for each processor that was busy all the time (percent).
  awake_unnormalized_utilization DOUBLE
) AS
SELECT r.awake_runtime AS awake_dur,
  round(100.0 * r.awake_runtime / _awake_time!($ts, $dur) / (SELECT max(cpu) + 1 FROM cpu), 2)
    AS awake_utilization,
  round(100.0 * r.awake_runtime / _awake_time!($ts, $dur), 2) AS awake_unnormalized_utilization
FROM cpu_cycles_in_interval($ts, $dur) r;

-- The use of each processor.
CREATE PERFETTO TABLE cpu_cycles_per_cpu(
  -- Processor, see cpu.id.
  ucpu JOINID(cpu.id),
  -- Number of the processor on its machine.
  cpu LONG,
  -- Cycles of the processors, in thousandths.
  millicycles LONG,
  -- Cycles of the processors, in millions.
  megacycles LONG,
  -- How long threads ran (ns).
  runtime DURATION,
  -- Lowest frequency (kHz).
  min_freq LONG,
  -- Highest frequency (kHz).
  max_freq LONG,
  -- Average frequency (kHz).
  avg_freq LONG
) AS
SELECT ucpu, cpu, _cpu_cycle_totals!(runtime) FROM cpu_cycles_per_thread_per_cpu GROUP BY ucpu, cpu;

-- The use of each processor in an interval.
CREATE PERFETTO FUNCTION cpu_cycles_per_cpu_in_interval(
  -- Start of the interval (ns).
  ts TIMESTAMP,
  -- Length of the interval (ns).
  dur LONG
)
RETURNS TABLE(
  -- Processor, see cpu.id.
  ucpu JOINID(cpu.id),
  -- Number of the processor on its machine.
  cpu LONG,
  -- Cycles of the processors, in thousandths.
  millicycles LONG,
  -- Cycles of the processors, in millions.
  megacycles LONG,
  -- How long threads ran (ns).
  runtime DURATION,
  -- Lowest frequency (kHz).
  min_freq LONG,
  -- Highest frequency (kHz).
  max_freq LONG,
  -- Average frequency (kHz).
  avg_freq LONG
) AS
SELECT r.ucpu, c.cpu, _cpu_cycle_sums!(iif(freq IS NOT NULL, dur, NULL))
FROM _cpu_freq_per_thread_in_interval($ts, $dur) r JOIN cpu c ON c.ucpu = r.ucpu
GROUP BY r.ucpu;
