-- SPDX-License-Identifier: Apache-2.0
--
-- Use of the processors by each thread on each processor.

INCLUDE PERFETTO MODULE intervals.intersect;
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
  SELECT c0 AS utid, c1 AS ucpu, c2 AS millicycles, c3 AS megacycles, c4 AS runtime,
    c5 AS min_freq, c6 AS max_freq, c7 AS avg_freq
  FROM __intrinsic_table_ptr((
    SELECT __intrinsic_cycle_sums_agg(utid, ucpu, dur, freq) FROM _busy_at_frequency
  ))
  WHERE __intrinsic_token_apply_and!(
    _ii_df_bind, (c0, c1, c2, c3, c4, c5, c6, c7),
    (utid, ucpu, millicycles, megacycles, runtime, min_freq, max_freq, avg_freq))
) r CROSS JOIN cpu c ON c.ucpu = r.ucpu;

-- The use of each processor by each thread, in an interval.
CREATE PERFETTO FUNCTION cpu_cycles_per_thread_per_cpu_in_interval(
  -- Start of the interval (ns).
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
