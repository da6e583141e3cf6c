-- SPDX-License-Identifier: Apache-2.0
--
-- Counters that perf read with its samples.

-- The value that a counter had at a sample.
CREATE PERFETTO FUNCTION linux_perf_counter_for_sample(
  -- Sample, see perf_sample.
  sample_id JOINID(perf_sample.id),
  -- Counter, such as cpu-clock or instructions.
  counter_name STRING
)
-- Value; NULL if the counter was not read.
RETURNS DOUBLE AS
SELECT (
  SELECT c.value
  FROM _profiler_sample s
  JOIN _profiler_counter_set r ON r.counter_set_id = s.counter_set_id
  JOIN counter c ON c.id = r.counter_id
  JOIN counter_track t ON t.id = c.track_id
  WHERE s.id = $sample_id AND t.name = $counter_name
  ORDER BY r.id LIMIT 1);

-- Samples of perf, a row for each counter that was read with them.
CREATE PERFETTO VIEW linux_perf_sample_with_counters(
  -- Sample.
  sample_id JOINID(perf_sample.id),
  -- Time (ns).
  ts TIMESTAMP,
  -- Thread.
  utid JOINID(thread.id),
  -- Processor that the thread ran on.
  cpu LONG,
  -- user, kernel, hypervisor, ... or unknown.
  cpu_mode STRING,
  -- Call stack.
  callsite_id JOINID(stack_profile_callsite.id),
  -- Why the call stack is not whole.
  unwind_error STRING,
  -- Session of perf.
  perf_session_id JOINID(perf_session.id),
  -- Reading, see counter.
  counter_id JOINID(counter.id),
  -- Counter, see counter_track.
  track_id JOINID(track.id),
  -- Value of the counter.
  counter_value DOUBLE
) AS
SELECT s.id AS sample_id, s.ts, s.utid, s.cpu, ifnull(s.cpu_mode, 'unknown') AS cpu_mode,
  s.callsite_id, s.unwind_error, s.session_id AS perf_session_id, r.counter_id, c.track_id,
  c.value AS counter_value
FROM _profiler_sample s
CROSS JOIN _profiler_counter_set r ON r.counter_set_id = s.counter_set_id
CROSS JOIN counter c ON c.id = r.counter_id
WHERE s.source = 'linux.perf';
