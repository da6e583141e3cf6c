-- SPDX-License-Identifier: Apache-2.0
--
-- Launches of activities on Android 10 to 12 (SDK 29 to 32).

INCLUDE PERFETTO MODULE android.startup.startup_events;

-- The times from one intent for an activity to the next intent, or to the end of the trace.
CREATE PERFETTO TABLE _activity_intent_recv_spans AS
SELECT ts, lead(ts, 1, trace_end()) OVER (ORDER BY ts) - ts AS dur
FROM _startup_slice
WHERE name = 'MetricsLogger:launchObserverNotifyIntentStarted'
ORDER BY ts;

-- The times of _activity_intent_recv_spans in which exactly one launch began.
CREATE PERFETTO VIEW _startup_partitions AS
SELECT s.ts, s.dur FROM _activity_intent_recv_spans s
WHERE (SELECT count(*) FROM _startup_events e WHERE e.ts BETWEEN s.ts AND s.ts + s.dur) = 1;

-- Ends of launches that succeeded.
CREATE PERFETTO VIEW _activity_intent_startup_successful AS
SELECT ts FROM _startup_slice
WHERE name = 'MetricsLogger:launchObserverNotifyActivityLaunchFinished';

-- Launches in order of time: ts, ts_end and dur (ns), package, startup_type (NULL). A launch begins
-- with the intent, and counts if the system server reports a successful launch before the next
-- intent. The package comes from the launch's slice, because the system server may name another
-- package at the end.
CREATE PERFETTO TABLE _startups_minsdk29 AS
SELECT p.ts, e.ts_end, e.ts_end - p.ts AS dur, e.package_name AS package, NULL AS startup_type
FROM _startup_partitions p
JOIN _startup_events e ON e.ts BETWEEN p.ts AND p.ts + p.dur
  AND e.ts_end BETWEEN p.ts AND p.ts + p.dur
WHERE EXISTS (SELECT 1 FROM _activity_intent_startup_successful f
              WHERE f.ts BETWEEN p.ts AND p.ts + p.dur)
ORDER BY p.ts;
