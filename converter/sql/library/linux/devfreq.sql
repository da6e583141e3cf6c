-- SPDX-License-Identifier: Apache-2.0
--
-- Frequencies of devices other than processors (devfreq). The trace needs the kernel event
-- devfreq/devfreq_frequency.

INCLUDE PERFETTO MODULE counters.intervals;

-- Frequency of the devices whose names match a pattern, one row for each period of constant
-- frequency.
CREATE PERFETTO FUNCTION _get_devfreq_counters(
  -- Pattern of GLOB.
  device_name STRING
)
RETURNS TABLE(
  -- Reading, see counter.
  id LONG,
  -- Start (ns).
  ts TIMESTAMP,
  -- Until another frequency or the end of the trace (ns).
  dur DURATION,
  -- Frequency (kHz).
  freq LONG
) AS
SELECT i.id, i.ts, i.dur, CAST(i.value AS INTEGER) AS freq
FROM counter_leading_intervals!((
  SELECT c.id, c.ts, c.track_id, c.value
  FROM track t JOIN counter c ON c.track_id = t.id
  WHERE t.type = 'linux_device_frequency'
    AND extract_arg(t.dimension_arg_set_id, 'linux_device') GLOB $device_name
)) i;

-- Frequency of the unit that ARM processors of a cluster share (DSU).
CREATE PERFETTO TABLE linux_devfreq_dsu_counter(
  -- Reading, see counter.
  id LONG,
  -- Start (ns).
  ts TIMESTAMP,
  -- Until another frequency or the end of the trace (ns).
  dur DURATION,
  -- Frequency (kHz).
  dsu_freq LONG
) AS
SELECT id, ts, dur, freq AS dsu_freq FROM _get_devfreq_counters('*devfreq_dsu')
UNION ALL
SELECT id, ts, dur, freq FROM _get_devfreq_counters('*dsufreq');
