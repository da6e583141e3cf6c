-- SPDX-License-Identifier: Apache-2.0
--
-- The shared part of the modules about the use of processors: periods, and runs of threads cut
-- where the frequency changes. The trace needs sched/sched_switch and power/cpu_frequency.

INCLUDE PERFETTO MODULE linux.cpu.frequency;

-- The start of the period that contains a time (ns). Periods begin at multiples of their size (ns).
CREATE PERFETTO FUNCTION _partition_start(ts TIMESTAMP, size LONG)
RETURNS LONG AS
SELECT $ts - $ts % $size;

-- The number of periods of the trace.
CREATE PERFETTO FUNCTION _partition_count(size LONG)
RETURNS LONG AS
SELECT trace_end() / $size - trace_start() / $size + 1;

-- The periods of the trace.
CREATE PERFETTO FUNCTION _partitions(size LONG)
RETURNS TABLE(ts TIMESTAMP, ts_end LONG) AS
WITH RECURSIVE
  period(ts) AS (
    SELECT _partition_start(trace_start(), $size)
    UNION ALL
    SELECT ts + $size FROM period WHERE ts + $size <= trace_end()
  )
SELECT ts, ts + $size AS ts_end FROM period;

-- Intervals in the periods in which they begin, cut at the period's end. Periods and intervals have
-- the columns ts and ts_end.
CREATE PERFETTO MACRO _interval_partitions(partitions TableOrSubquery, intervals TableOrSubquery)
RETURNS TableOrSubquery AS (
  SELECT period.ts AS partition_ts, min(part.ts_end, period.ts_end) AS ts_end, part.ts
  FROM $intervals AS part
  JOIN $partitions AS period ON part.ts >= period.ts AND part.ts < period.ts_end
);

-- Use of the processors in each period: its start (ts), `utilization` of all processors (0 to 1),
-- and `unnormalized_utilization` (1 for each busy processor). A run counts for the period in which
-- it began, up to the period's end.
CREATE PERFETTO MACRO _cpu_avg_utilization_per_period(
  -- Size of a period (ns).
  interval Expr,
  -- Runs of threads, with ts and ts_end.
  sched_table TableOrSubquery
)
RETURNS TableOrSubquery AS (
  WITH
    run AS (
      SELECT _begin AS ts, min(ts_end, _begin + $interval) - ts AS busy
      FROM (SELECT ts, ts_end, ts - ts % $interval AS _begin FROM $sched_table)
    )
  SELECT ts,
         sum(busy) / (CAST($interval AS REAL) * (SELECT max(cpu) + 1 FROM sched)) AS utilization,
    sum(busy) / CAST($interval AS REAL) AS unnormalized_utilization
  FROM run GROUP BY ts
);

CREATE PERFETTO VIEW _busy_span AS
SELECT s.ts, s.dur, s.utid, s.ucpu FROM sched s
WHERE s.dur != -1 AND s.utid NOT IN (SELECT t.utid FROM thread t WHERE t.is_idle);

CREATE PERFETTO VIEW _frequency_span AS
SELECT id AS counter_id, ts, dur, cpu, ucpu, freq FROM cpu_frequency_counters
WHERE freq IS NOT NULL;

CREATE VIRTUAL TABLE _busy_with_frequency USING
  SPAN_LEFT_JOIN(_busy_span PARTITIONED ucpu, _frequency_span PARTITIONED ucpu);

CREATE PERFETTO TABLE _busy_at_frequency AS
SELECT ts, dur, ucpu, cpu, utid, freq, counter_id FROM _busy_with_frequency;

-- Runs of threads, cut where the processor's frequency changes: id, ts and dur (ns), ucpu, cpu,
-- utid, freq (kHz), counter_id. cpu, freq and counter_id are NULL before the first reading of the
-- frequency.
CREATE PERFETTO VIEW _cpu_freq_per_thread AS
SELECT rowid - 1 AS id, ts, dur, ucpu, cpu, utid, freq, counter_id FROM _busy_at_frequency;

-- The runs of _cpu_freq_per_thread, cut to an interval.
CREATE PERFETTO FUNCTION _cpu_freq_per_thread_in_interval(ts TIMESTAMP, dur DURATION)
RETURNS TABLE(id LONG, ts TIMESTAMP, dur DURATION, ucpu LONG, utid LONG, freq LONG) AS
SELECT rowid - 1 AS id, max(ts, $ts) AS ts,
       min(ts + dur, $ts + $dur) - max(ts, $ts) AS dur, ucpu, utid,
  freq
FROM _busy_at_frequency WHERE ts < $ts + $dur AND ts + dur > $ts;

-- Sums over rows with dur (ns) and freq (kHz); a cycle of 1 kHz takes 1 ms.
CREATE PERFETTO MACRO _cpu_cycle_sums(
  -- The time over which the frequency is averaged (ns).
  dur_with_frequency Expr
)
RETURNS _ProjectionFragment AS
  CAST(sum(dur * freq / 1000) AS INTEGER) AS millicycles,
  CAST(sum(dur * freq / 1000) / 1e9 AS INTEGER) AS megacycles,
  sum(dur) AS runtime,
  min(freq) AS min_freq,
  max(freq) AS max_freq,
  CAST(sum(dur * freq / 1000) / (sum($dur_with_frequency) / 1000) AS INTEGER) AS avg_freq;

-- Sums over rows of cpu_cycles_per_thread_per_cpu.
CREATE PERFETTO MACRO _cpu_cycle_totals(
  -- Time in which threads ran (ns).
  runtime ColumnName
)
RETURNS _ProjectionFragment AS
  sum(millicycles) AS millicycles,
  CAST(sum(millicycles) / 1e9 AS INTEGER) AS megacycles,
  sum($runtime) AS runtime,
  min(min_freq) AS min_freq,
  max(max_freq) AS max_freq,
  CAST(sum(millicycles) / (sum($runtime) / 1000) AS INTEGER) AS avg_freq;

-- The time (ns) for a clock that stops while the device is suspended.
CREATE PERFETTO MACRO _awake_time(
  -- Start (ns).
  ts Expr,
  -- Duration (ns).
  dur Expr
)
RETURNS Expr AS (to_monotonic($ts + $dur) - to_monotonic($ts));
