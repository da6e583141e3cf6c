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
