-- SPDX-License-Identifier: Apache-2.0
--
-- Launches of activities: how long they took, and which processes and threads took part.

INCLUDE PERFETTO MODULE android.process_metadata;
INCLUDE PERFETTO MODULE android.startup.startup_events;
INCLUDE PERFETTO MODULE android.startup.startups_maxsdk28;
INCLUDE PERFETTO MODULE android.startup.startups_minsdk29;
INCLUDE PERFETTO MODULE android.startup.startups_minsdk33;
INCLUDE PERFETTO MODULE android.version;

-- The way in which this version of Android traces launches: 28, 29 or 33, the SDK that introduced
-- the way. If the version is not known, the names of the slices show the way.
CREATE PERFETTO FUNCTION _startup_sdk()
RETURNS LONG AS
SELECT CASE
  WHEN _android_sdk_version() >= 33 THEN 33
  WHEN _android_sdk_version() >= 29 THEN 29
  WHEN _android_sdk_version() IS NOT NULL THEN 28
  WHEN EXISTS (SELECT 1 FROM _startup_slice WHERE name GLOB 'launchingActivity#*:*') THEN 33
  WHEN EXISTS (SELECT 1 FROM _startup_slice WHERE name GLOB 'MetricsLogger:*') THEN 29
  ELSE 28
END;

-- Launches: startup_id, ts, ts_end and dur (ns), package, startup_type (NULL: not known).
CREATE PERFETTO TABLE _android_startups_raw AS
WITH way AS MATERIALIZED (SELECT _startup_sdk() AS sdk)
SELECT l.rowid - 1 AS startup_id, l.ts, l.ts_end, l.dur, l.package, l.startup_type
FROM _startups_maxsdk28 l JOIN way ON way.sdk = 28
UNION ALL
SELECT l.rowid - 1, l.ts, l.ts_end, l.dur, l.package, l.startup_type
FROM _startups_minsdk29 l JOIN way ON way.sdk = 29
UNION ALL
SELECT l.startup_id, l.ts, l.ts_end, l.dur, l.package, l.startup_type
FROM _startups_minsdk33 l JOIN way ON way.sdk = 33;

-- The slices of a main thread that distinguish kinds of launches: ts (ns), name, track_id.
CREATE PERFETTO TABLE _startup_indicator_slices AS
SELECT ts, name, track_id FROM _startup_slice
WHERE name IN ('bindApplication', 'activityStart', 'activityResume');

CREATE PERFETTO INDEX _startup_indicator_slices_track ON _startup_indicator_slices(track_id, ts);

-- The number of slices in _startup_indicator_slices with a name that a thread began in an interval.
CREATE PERFETTO FUNCTION _startup_indicator_slice_count(
  -- Start of the interval (ns).
  start_ts TIMESTAMP,
  -- End of the interval (ns).
  end_ts TIMESTAMP,
  -- Thread.
  utid JOINID(thread.id),
  -- Name.
  name STRING
)
RETURNS LONG AS
SELECT count(*)
FROM thread_track t JOIN _startup_indicator_slices s ON s.track_id = t.id
WHERE t.utid = $utid AND s.name = $name AND s.ts >= $start_ts AND s.ts < $end_ts;

-- The processes that were launched, usually one for a launch; two, if one ended and was started
-- again. Processes of the package that did not resume an activity are left out.
CREATE PERFETTO TABLE android_startup_processes(
  -- Launch.
  startup_id JOINID(android_startups.startup_id),
  -- Process.
  upid JOINID(process.id),
  -- Process id.
  pid LONG,
  -- cold (the process is new), warm (the activity is new) or hot.
  startup_type STRING
) AS
SELECT startup_id, upid, pid,
  coalesce(startup_type, iif(n_binds AND n_starts, 'cold', iif(n_starts, 'warm', 'hot')))
    AS startup_type
FROM (
  SELECT l.startup_id, l.startup_type, p.upid, p.pid,
    count(*) FILTER (WHERE s.name = 'bindApplication') AS n_binds,
    count(*) FILTER (WHERE s.name = 'activityStart') AS n_starts,
    count(*) FILTER (WHERE s.name = 'activityResume') AS n_resumes
  FROM _android_startups_raw l
  -- Without a list of packages, the name of the process gives the package.
  JOIN android_process_metadata p ON p.package_name = l.package
    OR (NOT EXISTS (SELECT 1 FROM package_list) AND p.process_name GLOB l.package || '*')
  JOIN thread h ON h.upid = p.upid AND h.is_main_thread
  JOIN thread_track t ON t.utid = h.utid
  JOIN _startup_indicator_slices s ON s.track_id = t.id AND s.ts >= l.ts AND s.ts < l.ts_end
  GROUP BY l.rowid, p.upid, h.utid
)
WHERE n_resumes > 0;

-- All launches.
CREATE PERFETTO VIEW android_startups(
  -- Launch.
  startup_id ID,
  -- Start (ns).
  ts TIMESTAMP,
  -- End (ns).
  ts_end TIMESTAMP,
  -- Duration (ns).
  dur DURATION,
  -- Duration of the last activity's launch, if activities launched each other; else dur (ns).
  dur_without_trampoline DURATION,
  -- Package.
  package STRING,
  -- cold, warm or hot; NULL: not known.
  startup_type STRING
) AS
SELECT l.startup_id, l.ts, l.ts_end, l.dur,
  coalesce((
    SELECT e.dur FROM _startup_events e
    WHERE e.package_name = l.package AND e.ts < l.ts_end
      AND e.ts > (SELECT min(first.ts) FROM _startup_events first WHERE first.ts >= l.ts)
    ORDER BY e.ts DESC LIMIT 1
  ), l.dur) AS dur_without_trampoline,
  l.package, coalesce(l.startup_type, max(p.startup_type)) AS startup_type
FROM _android_startups_raw l
LEFT JOIN android_startup_processes p ON p.startup_id = l.startup_id
GROUP BY l.startup_id;

-- The threads of the processes that were launched.
CREATE PERFETTO VIEW android_startup_threads(
  -- Launch.
  startup_id JOINID(android_startups.startup_id),
  -- Start of the launch (ns).
  ts TIMESTAMP,
  -- Duration of the launch (ns).
  dur DURATION,
  -- Process.
  upid JOINID(process.id),
  -- Process id.
  pid LONG,
  -- Thread.
  utid JOINID(thread.id),
  -- Thread id.
  tid LONG,
  -- Name of the thread.
  thread_name STRING,
  -- 1: the main thread of the process.
  is_main_thread BOOL
) AS
SELECT l.startup_id, l.ts, l.dur, p.upid, p.pid, h.utid, h.tid, h.name AS thread_name,
  h.is_main_thread
FROM android_startups l
JOIN android_startup_processes p ON p.startup_id = l.startup_id
JOIN thread h ON h.upid = p.upid;

-- The slices that these threads began during the launch. The functions below take their rows here.
CREATE PERFETTO VIEW android_thread_slices_for_all_startups(
  -- Start of the launch (ns).
  startup_ts TIMESTAMP,
  -- End of the launch (ns).
  startup_ts_end TIMESTAMP,
  -- Launch.
  startup_id JOINID(android_startups.startup_id),
  -- Thread.
  utid JOINID(thread.id),
  -- Thread id.
  tid LONG,
  -- Name of the thread.
  thread_name STRING,
  -- 1: the main thread of the process.
  is_main_thread BOOL,
  -- Arguments of the slice, see args.
  arg_set_id ARGSETID,
  -- Slice.
  slice_id JOINID(slice.id),
  -- Name of the slice.
  slice_name STRING,
  -- Start of the slice (ns).
  slice_ts TIMESTAMP,
  -- Duration of the slice (ns).
  slice_dur DURATION
) AS
SELECT h.ts AS startup_ts, h.ts + h.dur AS startup_ts_end, h.startup_id, h.utid, h.tid,
  h.thread_name, h.is_main_thread, s.arg_set_id, s.id AS slice_id, s.name AS slice_name,
  s.ts AS slice_ts, s.dur AS slice_dur
FROM android_startup_threads h
JOIN thread_track t ON t.utid = h.utid
JOIN slice s ON s.track_id = t.id AND s.ts BETWEEN h.ts AND h.ts + h.dur;

-- The slices of a launch whose names match.
CREATE PERFETTO FUNCTION android_slices_for_startup_and_slice_name(
  -- Launch.
  startup_id JOINID(android_startups.startup_id),
  -- Pattern of the name, for GLOB.
  slice_name STRING
)
RETURNS TABLE(
  -- Slice.
  slice_id JOINID(slice.id),
  -- Name of the slice.
  slice_name STRING,
  -- Start of the slice (ns).
  slice_ts TIMESTAMP,
  -- Duration of the slice (ns).
  slice_dur DURATION,
  -- Name of the thread.
  thread_name STRING,
  -- Thread id.
  tid LONG,
  -- Arguments, see args.
  arg_set_id ARGSETID
) AS
SELECT slice_id, slice_name, slice_ts, slice_dur, thread_name, tid, arg_set_id
FROM android_thread_slices_for_all_startups
WHERE startup_id = $startup_id AND slice_name GLOB $slice_name;

-- Loading of classes during launches: slices with the name of a class, as Lcom/example/Shelf;.
CREATE PERFETTO VIEW android_class_loading_for_startup(
  -- Slice.
  slice_id JOINID(slice.id),
  -- Launch.
  startup_id JOINID(android_startups.startup_id),
  -- Name of the slice.
  slice_name STRING,
  -- Start of the slice (ns).
  slice_ts TIMESTAMP,
  -- Duration of the slice (ns).
  slice_dur DURATION,
  -- Name of the thread.
  thread_name STRING,
  -- Thread id.
  tid LONG,
  -- Arguments, see args.
  arg_set_id ARGSETID
) AS
SELECT slice_id, startup_id, slice_name, slice_ts, slice_dur, thread_name, tid, arg_set_id
FROM android_thread_slices_for_all_startups
WHERE slice_name GLOB 'L*;';

-- Calls of other processes (binder) during a launch that took longer than a bound.
CREATE PERFETTO FUNCTION android_binder_transaction_slices_for_startup(
  -- Launch.
  startup_id JOINID(android_startups.startup_id),
  -- Bound (ns).
  threshold DOUBLE
)
RETURNS TABLE(
  -- Slice.
  id LONG,
  -- Duration of the slice (ns).
  slice_dur DURATION,
  -- Name of the thread that called.
  thread_name STRING,
  -- Name of the process that was called.
  process STRING,
  -- Arguments, see args.
  arg_set_id ARGSETID,
  -- 1: the main thread of the process.
  is_main_thread BOOL
) AS
SELECT s.slice_id AS id, s.slice_dur, s.thread_name, p.name AS process, s.arg_set_id,
  s.is_main_thread
FROM android_thread_slices_for_all_startups s
JOIN process p ON p.pid = extract_arg(s.arg_set_id, 'destination process')
WHERE s.startup_id = $startup_id AND s.slice_name = 'binder transaction'
  AND s.slice_dur > $threshold;

-- How long the slices of a launch whose names match took together.
CREATE PERFETTO FUNCTION android_sum_dur_for_startup_and_slice(
  -- Launch.
  startup_id JOINID(android_startups.startup_id),
  -- Pattern of the name, for GLOB.
  slice_name STRING
)
-- Duration (ns).
RETURNS LONG AS
SELECT sum(slice_dur) FROM android_thread_slices_for_all_startups
WHERE startup_id = $startup_id AND slice_name GLOB $slice_name;

-- How long slices of a name took on the main threads of a launch.
CREATE PERFETTO FUNCTION android_sum_dur_on_main_thread_for_startup_and_slice(
  -- Launch.
  startup_id JOINID(android_startups.startup_id),
  -- Pattern of the name, for GLOB.
  slice_name STRING
)
-- Duration (ns).
RETURNS LONG AS
SELECT sum(slice_dur) FROM android_thread_slices_for_all_startups
WHERE startup_id = $startup_id AND slice_name GLOB $slice_name AND is_main_thread;
