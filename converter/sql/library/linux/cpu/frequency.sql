-- SPDX-License-Identifier: Apache-2.0
--
-- Frequencies of processors.

INCLUDE PERFETTO MODULE counters.intervals;

-- Frequency of each processor, one row for each period in which the frequency stayed the same.
CREATE PERFETTO TABLE cpu_frequency_counters(
  -- Reading, see counter.
  id LONG,
  -- Counter.
  track_id JOINID(track.id),
  -- Start (ns).
  ts TIMESTAMP,
  -- Until another frequency or the end of the trace (ns).
  dur DURATION,
  -- Frequency (kHz).
  freq LONG,
  -- Processor, see cpu.id.
  ucpu LONG,
  -- Number of the processor on its machine.
  cpu LONG
) AS
SELECT i.id, i.track_id, i.ts, i.dur, CAST(i.value AS INTEGER) AS freq, p.ucpu, t.cpu
FROM counter_leading_intervals!((
  SELECT c.id, c.ts, c.track_id, c.value
  FROM cpu_counter_track t JOIN counter c ON c.track_id = t.id
  WHERE t.name = 'cpufreq'
)) i
JOIN cpu_counter_track t ON t.id = i.track_id
JOIN cpu p ON p.cpu = t.cpu AND p.machine_id IS t.machine_id;
