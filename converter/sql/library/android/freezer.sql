-- SPDX-License-Identifier: Apache-2.0
--
-- Processes that Android freezes: cached apps keep their memory, but do not run.

-- The process id in a name such as "Freeze com.app:123 0".
CREATE PERFETTO FUNCTION _extract_freezer_pid(
  -- Name of the slice.
  name STRING
)
RETURNS LONG AS
SELECT CAST(reverse(str_split(reverse(str_split($name, ' ', 1)), ':', 0)) AS INTEGER);

-- The process that had a process id at a time; the latest process if there are several. A process
-- without a start_ts lived from the start of the trace, and a process without an end_ts to the end
-- of the trace.
CREATE PERFETTO FUNCTION _pid_to_upid(
  -- Number of the process.
  pid LONG,
  -- Time (ns).
  event_ts TIMESTAMP
)
RETURNS LONG AS
SELECT max(upid) FROM process
WHERE pid = $pid AND $event_ts BETWEEN ifnull(start_ts, trace_start())
  AND ifnull(end_ts, trace_end());

-- The reasons for which Android lets a process run again, by number.
CREATE PERFETTO TABLE _android_unfreeze_reason AS
WITH reasons(reason, name) AS (VALUES
  (0, 'none'), (1, 'activity'), (2, 'finish_receiver'), (3, 'start_receiver'), (4, 'bind_service'),
  (5, 'unbind_service'), (6, 'start_service'), (7, 'get_provider'), (8, 'remove_provider'),
  (9, 'ui_visibility'), (10, 'allowlist'), (11, 'process_begin'), (12, 'process_end'),
  (13, 'trim_memory'), (15, 'ping'), (16, 'file_locks'), (17, 'file_lock_check_failure'),
  (18, 'binder_txns'), (19, 'feature_flags'), (20, 'short_fgs_timeout'), (21, 'system_init'),
  (22, 'backup'), (23, 'shell'), (24, 'remove_task'), (25, 'uid_idle'), (26, 'stop_service'),
  (27, 'executing_service'), (28, 'restriction_change'), (29, 'component_disabled'))
SELECT reason, name FROM reasons;

-- The name of a reason; NULL if the number has none.
CREATE PERFETTO FUNCTION _translate_unfreeze_reason(
  -- Number of the reason.
  reason LONG
)
RETURNS STRING AS
SELECT name FROM _android_unfreeze_reason WHERE reason = $reason;

-- Times in which processes were frozen.
CREATE PERFETTO TABLE android_freezer_events(
  -- Process.
  upid JOINID(process.id),
  -- Process id.
  pid LONG,
  -- Start (ns).
  ts TIMESTAMP,
  -- Until the process runs again, or the end of the trace (ns).
  dur DURATION,
  -- Why the process runs again, as a number; NULL at the end of the trace.
  unfreeze_reason_int LONG,
  -- Why the process runs again, as a word.
  unfreeze_reason_str STRING
) AS
WITH
  named AS MATERIALIZED (
    SELECT ts, name, name GLOB 'Freeze *' AS is_freeze, _extract_freezer_pid(name) AS pid
    FROM slice WHERE name GLOB 'Freeze *:*' OR name GLOB 'Unfreeze *:*' -- by the index of names
  ),
  event AS (
    SELECT ts, pid, is_freeze, _pid_to_upid(pid, ts) AS upid,
      iif(is_freeze, NULL, str_split(name, ' ', 2)) AS reason
    FROM named
  ),
  span AS (
    SELECT upid, pid, ts, is_freeze, ifnull(lead(ts) OVER next, trace_end()) - ts AS dur,
      CAST(lead(reason) OVER next AS INTEGER) AS reason
    FROM event WINDOW next AS (PARTITION BY upid ORDER BY ts)
  )
SELECT upid, pid, ts, dur, reason AS unfreeze_reason_int,
  _translate_unfreeze_reason(reason) AS unfreeze_reason_str
FROM span WHERE is_freeze AND upid IS NOT NULL;
