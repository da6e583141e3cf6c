-- SPDX-License-Identifier: Apache-2.0
--
-- Idle states of processors.

INCLUDE PERFETTO MODULE counters.intervals;

-- Idle state of each processor, one row for each period in which the state stayed the same.
CREATE PERFETTO TABLE cpu_idle_counters(
  -- Reading, see counter.
  id LONG,
  -- Counter.
  track_id JOINID(track.id),
  -- Start (ns).
  ts TIMESTAMP,
  -- Until another state or the end of the trace (ns).
  dur DURATION,
  -- State: -1 while the processor is at work; a higher number is a deeper sleep.
  idle LONG,
  -- Processor.
  cpu LONG
) AS
SELECT i.id, i.track_id, i.ts, i.dur,
  CAST(i.value AS INTEGER) - iif(i.value = 0xffffffff, 0x100000000, 0) AS idle, t.cpu
FROM counter_leading_intervals!((
  SELECT c.id, c.ts, c.track_id, c.value
  FROM cpu_counter_track t JOIN counter c ON c.track_id = t.id
  WHERE t.name = 'cpuidle'
)) i
JOIN cpu_counter_track t ON t.id = i.track_id;
