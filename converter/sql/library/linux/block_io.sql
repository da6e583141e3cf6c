-- SPDX-License-Identifier: Apache-2.0
--
-- Reads and writes of block devices.

-- How many operations each device and its queue had at a time, a row for each change.
CREATE PERFETTO VIEW linux_active_block_io_operations_by_device(
  -- Time (ns).
  ts LONG,
  -- Operations that are queued or under way.
  ops_in_queue_or_device LONG,
  -- Number of the device: see linux_device_major_id.
  dev LONG
) AS
WITH
  operation AS (
    SELECT extract_arg(t.dimension_arg_set_id, 'block_device') AS dev, s.ts, s.dur
    FROM track t JOIN slice s ON s.track_id = t.id WHERE t.type = 'block_io'
  ),
  change AS (
    SELECT dev, ts, 1 AS n FROM operation
    UNION ALL
    SELECT dev, ts + dur, -1 FROM operation WHERE dur != -1
  )
SELECT ts, sum(sum(n)) OVER (PARTITION BY dev ORDER BY ts) AS ops_in_queue_or_device, dev
FROM change GROUP BY dev, ts ORDER BY ts;

-- The major number of a device.
CREATE PERFETTO FUNCTION linux_device_major_id(
  -- Number of the device, as stat() has it.
  dev LONG
)
-- The major number: 12 bits.
RETURNS LONG AS
SELECT ($dev >> 8) & 0xfff;

-- The minor number of a device.
CREATE PERFETTO FUNCTION linux_device_minor_id(
  -- Number of the device, as stat() has it.
  dev LONG
)
-- The minor number: 8 bits, and 12 more above the major one.
RETURNS LONG AS
SELECT ($dev & 0xff) | ($dev >> 20 << 8);
