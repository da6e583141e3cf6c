-- SPDX-License-Identifier: Apache-2.0
--
-- The system server's slices about launches of activities.

INCLUDE PERFETTO MODULE slices.with_context;

-- Launches as the system server shows them: ts, dur and ts_end (ns), package_name.
CREATE PERFETTO TABLE _startup_events AS
SELECT ts, dur, ts + dur AS ts_end, str_split(name, ': ', 1) AS package_name
FROM process_slice
WHERE name GLOB 'launching: *' AND ifnull(process_name, 'system_server') = 'system_server';
