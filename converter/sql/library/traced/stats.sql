-- SPDX-License-Identifier: Apache-2.0
--
-- How long the service took to clone traces.

-- The time from the clone's start or trigger (`name` of the stat) to the flush of each buffer.
CREATE PERFETTO VIEW _traced_clone_time AS
SELECT b.name, d.idx AS buffer_id, d.value - b.value AS duration_ns, d.machine_id, d.trace_id
FROM stats b JOIN stats d ON d.machine_id IS b.machine_id AND d.trace_id IS b.trace_id
WHERE d.name = 'traced_buf_clone_done_timestamp_ns' AND b.value != 0
  AND b.name IN ('traced_clone_started_timestamp_ns', 'traced_clone_trigger_timestamp_ns');

-- The time from the start of the clone to the flush of each buffer.
CREATE PERFETTO TABLE traced_clone_flush_latency(
  -- Buffer: its number in the config, from 0.
  buffer_id LONG,
  -- Duration (ns).
  duration_ns LONG,
  -- Machine that was recorded.
  machine_id JOINID(machine.id),
  -- Trace.
  trace_id LONG
) AS
SELECT buffer_id, duration_ns, machine_id, trace_id FROM _traced_clone_time
WHERE name = 'traced_clone_started_timestamp_ns' ORDER BY machine_id, trace_id, buffer_id;

-- The time from the trigger that asked for the clone to the flush of each buffer.
CREATE PERFETTO TABLE traced_trigger_clone_flush_latency(
  -- Buffer: its number in the config, from 0.
  buffer_id LONG,
  -- Duration (ns).
  duration_ns LONG,
  -- Machine that was recorded.
  machine_id JOINID(machine.id),
  -- Trace.
  trace_id LONG
) AS
SELECT buffer_id, duration_ns, machine_id, trace_id FROM _traced_clone_time
WHERE name = 'traced_clone_trigger_timestamp_ns' ORDER BY machine_id, trace_id, buffer_id;
