-- SPDX-License-Identifier: Apache-2.0
--
-- How long the switch from one user of a car to the next took.

INCLUDE PERFETTO MODULE android.startup.startups;

-- The last start of a user other than 10, the first user of a car: ts (ns), name, user_id.
CREATE PERFETTO TABLE _auto_user_start AS
SELECT ts, name, substr(name, instr(name, '-') + 1, 2) AS user_id
FROM slice
WHERE name GLOB 'UserController.startUser*' AND name NOT GLOB 'UserController.startUser-10*'
ORDER BY ts DESC LIMIT 1;

-- Ends of switches: launches of activities, and the stop of user 10: ts (ns), name.
CREATE PERFETTO VIEW _auto_user_switch_end AS
SELECT ts_end AS ts, package AS name FROM android_startups
UNION
SELECT ts + dur, name FROM slice WHERE name GLOB 'finishUserStopped-10*';

-- The times from the last start of a user to each later end of a switch.
CREATE PERFETTO TABLE android_auto_multiuser_timing(
  -- User who was started: two characters of the slice's name.
  event_start_user_id STRING,
  -- Start (ns).
  event_start_time LONG,
  -- End (ns).
  event_end_time LONG,
  -- Package that was launched, or the slice that stopped user 10.
  event_end_name STRING,
  -- Slice of the start.
  event_start_name STRING,
  -- From the start to the end (ns).
  duration LONG
) AS
SELECT s.user_id AS event_start_user_id, s.ts AS event_start_time, e.ts AS event_end_time,
  e.name AS event_end_name, s.name AS event_start_name, e.ts - s.ts AS duration
FROM _auto_user_switch_end e JOIN _auto_user_start s ON e.ts > s.ts;

-- Time that processes of user 10 ran in slices that began during a switch: name, total_cpu_time
-- (ns).
CREATE PERFETTO VIEW _auto_user_10_cpu_time AS
SELECT t.event_end_name AS name, p.android_user_id AS user_id, sum(s.dur) AS total_cpu_time
FROM android_auto_multiuser_timing t
JOIN sched_slice s ON s.ts BETWEEN t.event_start_time AND t.event_end_time
JOIN thread USING (utid)
JOIN process p USING (upid)
WHERE p.android_user_id = 10
GROUP BY t.event_end_name;

-- How much the resident memory of processes of user 10 grew during a switch: name,
-- total_memory_usage_kb. Memory that a process gave back is not taken off.
CREATE PERFETTO VIEW _auto_user_10_memory AS
WITH
  step AS (
    SELECT t.event_end_name AS name, p.name AS process_name,
      c.value - lag(c.value) OVER (PARTITION BY p.name, t.event_end_name ORDER BY c.ts) AS growth
    FROM android_auto_multiuser_timing t
    JOIN counter c ON c.ts BETWEEN t.event_start_time AND t.event_end_time
    JOIN process_counter_track r ON r.id = c.track_id
    JOIN process p USING (upid)
    WHERE r.name = 'mem.rss' AND p.android_user_id = 10
  ),
  process_growth AS (
    SELECT name, sum(growth) / 1e3 AS kb FROM step WHERE growth > 0 GROUP BY name, process_name
  )
SELECT name, CAST(sum(kb) AS INTEGER) AS total_memory_usage_kb FROM process_growth GROUP BY name;

-- The rows of android_auto_multiuser_timing, with what the processes of user 10 used meanwhile.
CREATE PERFETTO VIEW android_auto_multiuser_timing_with_previous_user_resource_usage(
  -- User who was started: two characters of the slice's name.
  event_start_user_id STRING,
  -- Start (ns).
  event_start_time LONG,
  -- End (ns).
  event_end_time LONG,
  -- Package that was launched, or the slice that stopped user 10.
  event_end_name STRING,
  -- Slice of the start.
  event_start_name STRING,
  -- From the start to the end (ns).
  duration LONG,
  -- 10; NULL: no process of the user ran.
  user_id LONG,
  -- Time that the user's processes ran (ns).
  total_cpu_time LONG,
  -- Growth of the resident memory of the user's processes (kB).
  total_memory_usage_kb LONG
) AS
SELECT t.event_start_user_id, t.event_start_time, t.event_end_time, t.event_end_name,
  t.event_start_name, t.duration, c.user_id, c.total_cpu_time, m.total_memory_usage_kb
FROM android_auto_multiuser_timing t
LEFT JOIN _auto_user_10_cpu_time c ON c.name = t.event_end_name
LEFT JOIN _auto_user_10_memory m ON m.name = t.event_end_name;
