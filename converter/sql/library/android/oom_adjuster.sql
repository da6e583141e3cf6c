-- SPDX-License-Identifier: Apache-2.0
--
-- Scores by which Android's memory killer chooses (oom_score_adj), over time, and why they changed.

INCLUDE PERFETTO MODULE counters.intervals;
INCLUDE PERFETTO MODULE slices.with_context;

-- The group that a score belongs to: system, foreground, bfgs, foreground_service, job, background
-- or cached.
CREATE PERFETTO FUNCTION android_oom_adj_score_to_bucket_name(
  -- Score, -1000 to 1000.
  oom_score LONG
)
-- Name of the group; NULL without a score.
RETURNS STRING AS
SELECT CASE
  WHEN $oom_score < 0 THEN 'system'
  WHEN $oom_score < 100 THEN 'foreground'
  WHEN $oom_score < 200 THEN 'bfgs'
  WHEN $oom_score = 200 THEN 'foreground_service'
  WHEN $oom_score < 250 THEN 'job'
  WHEN $oom_score < 900 THEN 'background'
  WHEN $oom_score >= 900 THEN 'cached'
END;

-- Groups finer than those of android_oom_adj_score_to_bucket_name, which new queries should use.
CREATE PERFETTO FUNCTION android_oom_adj_score_to_detailed_bucket_name(
  -- Score, -1000 to 1000.
  value LONG,
  -- User id of the app, see process.android_appid.
  android_appid LONG
)
-- Name of the group; unknown, unknown_native or unknown_app for a score between the groups.
RETURNS STRING AS
SELECT coalesce(
  CASE
    WHEN $value >= 950 THEN 'cached_app_lmk_first'
    WHEN $value >= 900 THEN 'cached_app'
    WHEN $value >= 800 THEN 'service_b'
    WHEN $value >= 700 THEN 'previous_app'
    WHEN $value >= 600 THEN 'home_app'
    WHEN $value >= 500 THEN 'service'
    WHEN $value >= 400 THEN 'heavy_weight_app'
    WHEN $value >= 300 THEN 'backup'
    WHEN $value >= 250 THEN 'perceptible_low_app'
    WHEN $value >= 225 THEN 'perceptible_medium_app'
    WHEN $value >= 200 THEN 'perceptible_app'
    WHEN $value >= 100 THEN 'visible_app'
  END,
  CASE $value
    WHEN 50 THEN 'perceptible_foreground_app'
    WHEN 0 THEN 'foreground_app'
    WHEN -600 THEN 'logcat'
    WHEN -700 THEN 'persistent_service'
    WHEN -800 THEN 'persistent_proc'
    WHEN -900 THEN 'system'
    WHEN -1000 THEN 'native'
  END,
  CASE WHEN $android_appid < 10000 THEN 'unknown_native' WHEN $android_appid THEN 'unknown_app' END,
  'unknown');

-- The times at which the system server computed scores again.
CREATE PERFETTO TABLE _oom_adj_update AS
SELECT s.id, s.ts, s.dur, s.track_id, s.utid, s.thread_name, str_split(s.name, '_', 1) AS reason,
  (SELECT p.name FROM slice p WHERE p.id = s.parent_id AND p.dur != -1) AS trigger_name
FROM thread_slice s
WHERE s.name GLOB 'updateOomAdj_*' AND s.process_name = 'system_server';

CREATE PERFETTO INDEX _oom_adj_update_ts ON _oom_adj_update(ts);

-- Scores as intervals, each with the last update before its start.
CREATE PERFETTO TABLE _oom_adjuster_intervals AS
WITH
  score AS (
    SELECT i.ts, i.dur, CAST(i.value AS INTEGER) AS score, t.upid
    FROM counter_leading_intervals!((
      SELECT c.id, c.ts, c.track_id, c.value
      FROM counter_track t JOIN counter c ON c.track_id = t.id
      WHERE t.name = 'oom_score_adj'
    )) i
    JOIN process_counter_track t ON t.id = i.track_id
  )
SELECT s.ts, s.dur, s.score, p.upid, p.name AS process_name, u.id AS oom_adj_id,
  u.ts AS oom_adj_ts, u.dur AS oom_adj_dur, u.track_id AS oom_adj_track_id,
  u.thread_name AS oom_adj_thread_name, u.utid AS oom_adj_utid, u.reason AS oom_adj_reason,
  u.trigger_name AS oom_adj_trigger, p.android_appid
FROM score s JOIN process p ON p.upid = s.upid
LEFT JOIN _oom_adj_update u
  ON u.rowid = (SELECT b.rowid FROM _oom_adj_update b WHERE b.ts < s.ts ORDER BY b.ts DESC LIMIT 1);

CREATE PERFETTO INDEX _oom_adjuster_intervals_upid ON _oom_adjuster_intervals(upid, ts);

-- Scores of all processes, one row for each period in which a score stayed the same, with the last
-- update by the system server before the period.
CREATE PERFETTO VIEW android_oom_adj_intervals(
  -- Start (ns).
  ts TIMESTAMP,
  -- Until the score of the process changes, or the trace ends (ns).
  dur DURATION,
  -- Score, -1000 to 1000; a process with a higher score is killed earlier.
  score LONG,
  -- Group of the score, see android_oom_adj_score_to_bucket_name.
  bucket STRING,
  -- Process that has the score.
  upid JOINID(process.id),
  -- Name of the process.
  process_name STRING,
  -- Slice of the update.
  oom_adj_id LONG,
  -- Start of the update (ns).
  oom_adj_ts TIMESTAMP,
  -- How long the update took (ns).
  oom_adj_dur DURATION,
  -- Track of the update's slice.
  oom_adj_track_id JOINID(track.id),
  -- Thread of the system server that made the update.
  oom_adj_thread_name STRING,
  -- Why the scores were computed anew.
  oom_adj_reason STRING,
  -- Name of the slice around the update.
  oom_adj_trigger STRING
) AS
SELECT ts, dur, score, android_oom_adj_score_to_bucket_name(score) AS bucket, upid, process_name,
  oom_adj_id, oom_adj_ts, oom_adj_dur, oom_adj_track_id, oom_adj_thread_name, oom_adj_reason,
  oom_adj_trigger
FROM _oom_adjuster_intervals;
