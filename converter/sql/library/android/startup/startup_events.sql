-- SPDX-License-Identifier: Apache-2.0
--
-- The system server's slices about launches of activities.

-- The slices that the modules about launches read: id, ts and dur (ns), track_id, name. One walk
-- over all slices finds them. The ranges contain the names that begin with "launching", and with
-- "MetricsLogger" and a colon. The ranges cost less than patterns.
CREATE PERFETTO TABLE _startup_slice AS
SELECT id, ts, dur, track_id, name FROM slice
WHERE (name >= 'launching' AND name < 'launchinh')
  OR (name >= 'MetricsLogger:' AND name < 'MetricsLogger;')
  OR name = 'bindApplication' OR name = 'activityStart' OR name = 'activityResume';

-- Launches as the system server shows them: ts, dur and ts_end (ns), package_name.
CREATE PERFETTO TABLE _startup_events AS
SELECT s.ts, s.dur, s.ts + s.dur AS ts_end, str_split(s.name, ': ', 1) AS package_name
FROM _startup_slice s
CROSS JOIN process_track t ON t.id = s.track_id
CROSS JOIN process p ON p.upid = t.upid
WHERE s.name GLOB 'launching: *' AND ifnull(p.name, 'system_server') = 'system_server';
