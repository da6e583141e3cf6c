-- SPDX-License-Identifier: Apache-2.0
--
-- Launches of activities on Android 13 and later (SDK 33).

INCLUDE PERFETTO MODULE android.startup.startup_events;

-- Launches: slices launchingActivity#N.
CREATE PERFETTO VIEW _startup_async_events AS
SELECT ts, dur, cast_int!(substr(name, length('launchingActivity#') + 1)) AS startup_id
FROM _startup_slice
WHERE name GLOB 'launchingActivity#*' AND name NOT GLOB '*:*' AND dur > 0;

-- Ends of launches: instants launchingActivity#N:completed-KIND:PACKAGE.
CREATE PERFETTO VIEW _startup_complete_events AS
SELECT cast_int!(str_split(text, ':', 0)) AS startup_id, str_split(text, ':', 2) AS package_name,
  CASE str_split(text, ':', 1)
    WHEN 'completed-cold' THEN 'cold'
    WHEN 'completed-warm' THEN 'warm'
    WHEN 'completed-hot' THEN 'hot'
  END AS startup_type,
  min(ts)
FROM (
  SELECT ts, substr(name, length('launchingActivity#') + 1) AS text FROM _startup_slice
  WHERE name GLOB 'launchingActivity#*:completed*:*'
    AND name NOT GLOB '*:completed-same-process:*' AND dur = 0
)
GROUP BY 1, 2, 3;

-- Launches that were completed: startup_id, ts, ts_end and dur (ns), package, startup_type.
CREATE PERFETTO TABLE _startups_minsdk33 AS
SELECT b.startup_id, b.ts, b.ts + b.dur AS ts_end, b.dur, e.package_name AS package, e.startup_type
FROM _startup_async_events b JOIN _startup_complete_events e ON e.startup_id = b.startup_id;
