-- SPDX-License-Identifier: Apache-2.0
--
-- Energy that parts of the device took, as the meters of its power rails counted it. The trace
-- needs the data source android.power and a device that has such meters.

INCLUDE PERFETTO MODULE counters.intervals;

-- Readings of the meters, one row for each period in which a reading stayed the same.
CREATE PERFETTO TABLE android_power_rails_counters(
  -- Reading, see counter.
  id ID(counter.id),
  -- Start (ns).
  ts TIMESTAMP,
  -- Time until the next row of the rail, or until the end of the trace (ns).
  dur DURATION,
  -- Name of the rail.
  power_rail_name STRING,
  -- The name that the device gives the rail.
  raw_power_rail_name STRING,
  -- Energy since the device was started (microjoules).
  energy_since_boot DOUBLE,
  -- Energy until the end of the row (microjoules); NULL in the last row of a rail.
  energy_since_boot_at_end DOUBLE,
  -- Average power during the row (mW).
  average_power DOUBLE,
  -- Energy since the reading before (microjoules); NULL in the first row of a rail.
  energy_delta DOUBLE,
  -- Counter of the rail.
  track_id JOINID(track.id),
  -- The older name of energy_since_boot.
  value DOUBLE
) AS
SELECT i.id, i.ts, i.dur, t.name AS power_rail_name,
  extract_arg(t.source_arg_set_id, 'raw_name') AS raw_power_rail_name,
  i.value AS energy_since_boot, i.next_value AS energy_since_boot_at_end,
  1e6 * ((i.next_value - i.value) / i.dur) AS average_power, i.delta_value AS energy_delta,
  i.track_id, i.value
FROM counter_leading_intervals!((
  SELECT c.id, c.ts, c.track_id, c.value
  FROM counter_track r JOIN counter c ON c.track_id = r.id
  WHERE r.type = 'power_rails'
)) i
JOIN counter_track t ON t.id = i.track_id;

-- The rails that the trace has readings of.
CREATE PERFETTO TABLE android_power_rails_metadata(
  -- Name of the rail.
  power_rail_name STRING,
  -- The name that the device gives the rail.
  raw_power_rail_name STRING,
  -- Rest of the rail's name after power.rails.; NULL if the name begins otherwise.
  friendly_name STRING,
  -- Counter of the rail.
  track_id JOINID(track.id),
  -- Part of the device that the rail feeds.
  subsystem_name STRING,
  -- Machine of the rail.
  machine_id JOINID(machine.id)
) AS
SELECT name AS power_rail_name, extract_arg(source_arg_set_id, 'raw_name') AS raw_power_rail_name,
  iif(name GLOB 'power.rails.*', substr(name, length('power.rails.') + 1), NULL) AS friendly_name,
  id AS track_id, extract_arg(source_arg_set_id, 'subsystem_name') AS subsystem_name, machine_id
FROM counter_track
WHERE type = 'power_rails';
