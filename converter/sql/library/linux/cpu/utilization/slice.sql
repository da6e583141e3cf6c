-- SPDX-License-Identifier: Apache-2.0
--
-- Use of the processors while a thread was in a slice.

INCLUDE PERFETTO MODULE intervals.intersect;
INCLUDE PERFETTO MODULE linux.cpu.utilization.general;
INCLUDE PERFETTO MODULE slices.with_context;

-- Cycles in each slice of a list: id, millicycles, megacycles. A slice is left out unless the
-- thread ran in all of it, at known frequencies.
CREATE PERFETTO MACRO _cpu_cycles_in_slices(
  -- Slices: id, ts, dur, utid.
  slices TableOrSubquery
)
RETURNS TableOrSubquery AS (
  WITH
    _asked AS (SELECT id, ts, dur, utid FROM $slices WHERE dur > 0 AND utid > 0),
    _run AS (SELECT id, ts, dur, utid FROM _cpu_freq_per_thread WHERE freq IS NOT NULL),
    _part AS (
      SELECT i.id_0 AS id, i.dur, f.freq
      FROM _interval_intersect!((_asked, _run), (utid)) i
      JOIN _busy_at_frequency f ON f.rowid = i.id_1 + 1
    ),
    _sum AS (
      SELECT id, sum(dur) AS dur, CAST(sum(dur * freq / 1000) AS INTEGER) AS millicycles,
        CAST(sum(dur * freq / 1000) / 1e9 AS INTEGER) AS megacycles
      FROM _part GROUP BY id
    )
  SELECT _asked.id, _sum.millicycles, _sum.megacycles
  FROM _sum JOIN _asked ON _asked.id = _sum.id AND _asked.dur = _sum.dur
);

CREATE PERFETTO TABLE _cpu_cycles_of_slices AS
SELECT id, millicycles, megacycles
FROM _cpu_cycles_in_slices!((SELECT id, ts, dur, utid FROM thread_slice));

CREATE PERFETTO INDEX _cpu_cycles_of_slices_id ON _cpu_cycles_of_slices(id);

-- Cycles of each slice of a thread.
CREATE PERFETTO TABLE cpu_cycles_per_thread_slice(
  -- Slice.
  id JOINID(slice.id),
  -- Name of the slice.
  name STRING,
  -- Thread.
  utid JOINID(thread.id),
  -- Name of the thread.
  thread_name STRING,
  -- Process.
  upid JOINID(process.id),
  -- Name of the process.
  process_name STRING,
  -- Cycles of the processors, in thousandths; NULL unless the thread ran all the time, at known
  -- frequencies.
  millicycles LONG,
  -- Cycles of the processors, in millions; NULL where millicycles is NULL.
  megacycles LONG
) AS
SELECT s.id, s.name, s.utid, s.thread_name, s.upid, s.process_name, c.millicycles, c.megacycles
FROM thread_slice s LEFT JOIN _cpu_cycles_of_slices c ON c.id = s.id;

-- Cycles of each slice of a thread in an interval. Time outside of the interval does not count.
CREATE PERFETTO FUNCTION cpu_cycles_per_thread_slice_in_interval(
  -- Start of the interval (ns).
  ts TIMESTAMP,
  -- Length of the interval (ns).
  dur DURATION
)
RETURNS TABLE(
  -- Slice.
  id JOINID(slice.id),
  -- Name of the slice.
  name STRING,
  -- Thread.
  utid JOINID(thread.id),
  -- Name of the thread.
  thread_name STRING,
  -- Process.
  upid JOINID(process.id),
  -- Name of the process.
  process_name STRING,
  -- Cycles of the processors, in thousandths; NULL unless the thread ran all the time, at known
  -- frequencies.
  millicycles LONG,
  -- Cycles of the processors, in millions; NULL where millicycles is NULL.
  megacycles LONG
) AS
WITH
  cut AS MATERIALIZED (
    SELECT id, max(ts, $ts) AS ts, min(ts + dur, $ts + $dur) - max(ts, $ts) AS dur, name, utid,
      thread_name, upid, process_name
    FROM thread_slice WHERE dur > 0 AND utid > 0 AND ts < $ts + $dur AND ts + dur > $ts
  )
SELECT s.id, s.name, s.utid, s.thread_name, s.upid, s.process_name, c.millicycles, c.megacycles
FROM cut s LEFT JOIN _cpu_cycles_in_slices!((SELECT id, ts, dur, utid FROM cut)) c ON c.id = s.id;
