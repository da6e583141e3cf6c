-- SPDX-License-Identifier: Apache-2.0
--
-- Use of the processors by each thread on each processor.

INCLUDE PERFETTO MODULE linux.cpu.utilization.general;

-- The use of each processor by each thread.
CREATE PERFETTO TABLE cpu_cycles_per_thread_per_cpu(
  -- Thread.
  utid JOINID(thread.id),
  -- Processor, see cpu.id.
  ucpu JOINID(cpu.id),
  -- Number of the processor on its machine.
  cpu LONG,
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
SELECT r.utid, r.ucpu, c.cpu, r.millicycles, r.megacycles, r.runtime, r.min_freq, r.max_freq,
  r.avg_freq
FROM (
  SELECT utid, ucpu, _cpu_cycle_sums!(dur) FROM _busy_at_frequency GROUP BY utid, ucpu
) r JOIN cpu c ON c.ucpu = r.ucpu;

-- The same in an interval.
CREATE PERFETTO FUNCTION cpu_cycles_per_thread_per_cpu_in_interval(
  -- Begin of the interval (ns).
  ts TIMESTAMP,
  -- Length of the interval (ns).
  dur LONG
)
RETURNS TABLE(
  -- Thread.
  utid JOINID(thread.id),
  -- Processor, see cpu.id.
  ucpu JOINID(cpu.id),
  -- Number of the processor on its machine.
  cpu LONG,
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
SELECT r.utid, r.ucpu, c.cpu, _cpu_cycle_sums!(iif(freq IS NOT NULL, dur, NULL))
FROM _cpu_freq_per_thread_in_interval($ts, $dur) r JOIN cpu c ON c.ucpu = r.ucpu
GROUP BY r.utid, r.ucpu;
