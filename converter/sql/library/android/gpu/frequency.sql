-- SPDX-License-Identifier: Apache-2.0
--
-- Frequencies of GPUs.

INCLUDE PERFETTO MODULE counters.intervals;

-- The frequency of each GPU over time.
CREATE PERFETTO TABLE android_gpu_frequency(
  -- Start (ns).
  ts TIMESTAMP,
  -- Until the frequency changes (ns).
  dur DURATION,
  -- GPU, see gpu_counter_track.gpu_id.
  gpu_id LONG,
  -- Frequency (kHz).
  gpu_freq LONG,
  -- Frequency before; NULL at first.
  prev_gpu_freq LONG,
  -- Frequency after; NULL at the end.
  next_gpu_freq LONG
) AS
SELECT i.ts, i.dur, t.gpu_id, CAST(i.value AS INTEGER) AS gpu_freq,
  CAST(i.value - i.delta_value AS INTEGER) AS prev_gpu_freq,
  CAST(i.next_value AS INTEGER) AS next_gpu_freq
FROM counter_leading_intervals!((
  SELECT c.id, c.ts, c.track_id, c.value
  FROM gpu_counter_track t JOIN counter c ON c.track_id = t.id
  WHERE t.name = 'gpufreq' AND t.gpu_id IS NOT NULL
)) i
JOIN gpu_counter_track t ON t.id = i.track_id;
