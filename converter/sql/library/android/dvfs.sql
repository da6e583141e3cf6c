-- SPDX-License-Identifier: Apache-2.0
--
-- Frequencies that scale with the load (DVFS): those of domains, buses, memory and caches.

-- 1 if a counter of this name is a frequency that scales with the load.
CREATE PERFETTO FUNCTION _is_dvfs_counter(
  -- Name of a counter.
  name STRING
)
RETURNS BOOL AS
SELECT $name GLOB 'domain@[012] Frequency'
  OR $name GLOB 'cpu[0-8]dsu Frequency'
  OR $name GLOB 'gs_memlat_devfreq:devfreq_mif_cpu[0-8]_memlat@17000010 Frequency'
  OR $name IN ('17000010.devfreq_mif Frequency', '17000020.devfreq_int Frequency',
    '17000090.devfreq_dsu Frequency', '170000a0.devfreq_bci Frequency', 'dsu_throughput Frequency',
    'bus_throughput Frequency');

-- Frequencies over time, a row for each reading.
CREATE PERFETTO VIEW android_dvfs_counters(
  -- Name of the counter.
  name STRING,
  -- Time of the reading (ns).
  ts TIMESTAMP,
  -- Frequency (kHz).
  value DOUBLE,
  -- Until the next reading, or the end of the trace (ns).
  dur DURATION
) AS
SELECT t.name, c.ts, c.value,
  lead(c.ts, 1, trace_end()) OVER (PARTITION BY t.id ORDER BY c.ts) - c.ts AS dur
FROM counter_track t JOIN counter c ON c.track_id = t.id
WHERE t.name GLOB '* Frequency' AND _is_dvfs_counter(t.name)
ORDER BY c.ts;

-- Maximum, minimum and average of each frequency.
CREATE PERFETTO TABLE android_dvfs_counter_stats(
  -- Name of the counter.
  name STRING,
  -- Highest frequency (kHz).
  max DOUBLE,
  -- Lowest frequency (kHz).
  min DOUBLE,
  -- From the first reading to the last (ns).
  dur DURATION,
  -- Average over time (kHz).
  wgt_avg DOUBLE
) AS
SELECT name, max(value) AS max, min(value) AS min, max(ts) - min(ts) AS dur,
  sum(value * dur) / sum(dur) AS wgt_avg
FROM android_dvfs_counters WHERE dur > 0 GROUP BY name;

-- The total time at each frequency.
CREATE PERFETTO VIEW android_dvfs_counter_residency(
  -- Name of the counter.
  name STRING,
  -- Frequency (kHz).
  value DOUBLE,
  -- Total time at this frequency (ns).
  dur DURATION,
  -- Share of the counter's time (percent).
  pct DOUBLE
) AS
SELECT name, value, sum(dur) AS dur,
  100.0 * sum(dur) / sum(sum(dur)) OVER (PARTITION BY name) AS pct
FROM android_dvfs_counters WHERE dur > 0 GROUP BY name, value;
