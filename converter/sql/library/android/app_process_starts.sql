-- SPDX-License-Identifier: Apache-2.0
--
-- Processes of apps that Android started during the trace, and why.

-- The slices that this module reads: id, ts and dur (ns), track_id, name. One walk over all slices
-- finds them. The ranges contain the names that begin with a text and a colon, and cost less than
-- patterns.
CREATE PERFETTO TABLE _app_start_slice AS
SELECT id, ts, dur, track_id, name FROM slice
WHERE name = 'bindApplication' OR (name >= 'performCreate:' AND name < 'performCreate;')
  OR (name >= 'serviceCreate:' AND name < 'serviceCreate;')
  OR (name >= 'broadcastReceiveComp:' AND name < 'broadcastReceiveComp;')
  OR (name >= 'Start proc:' AND name < 'Start proc;');

-- The slices of _app_start_slice, with threads and processes.
CREATE PERFETTO TABLE _app_start_step AS
SELECT s.id, s.ts, s.dur, s.track_id, s.name, h.utid, h.upid, p.name AS process_name, p.pid
FROM _app_start_slice s
CROSS JOIN thread_track t ON t.id = s.track_id
CROSS JOIN thread h ON h.utid = t.utid
LEFT JOIN process p ON p.upid = h.upid;

-- Orders of the system server to start a process.
CREATE PERFETTO VIEW _proc_start AS
SELECT ts, dur, trim(substr(name, length('Start proc:') + 1)) AS process_name
FROM _app_start_step s
WHERE name GLOB 'Start proc:*' AND s.process_name = 'system_server';

-- Work of a new process directly after it bound its app: the slice before on the same thread is
-- bindApplication.
CREATE PERFETTO TABLE _cold_start AS
WITH
  step AS (
    SELECT id, ts AS intent_ts, dur AS intent_dur, track_id, name, upid, process_name, pid, utid,
      CASE
        WHEN name GLOB 'performCreate:*' THEN 'activity'
        WHEN name GLOB 'serviceCreate:*' THEN 'service'
        WHEN name GLOB 'broadcastReceiveComp:*' THEN 'broadcast'
      END AS reason
    FROM _app_start_step
    WHERE name NOT GLOB 'Start proc:*'
  ),
  pair AS (
    SELECT *, lag(name) OVER w AS bind_app_name, lag(intent_ts) OVER w AS bind_app_ts,
      lag(intent_dur) OVER w AS bind_app_dur, lag(id) OVER w AS bind_app_id
    FROM step WINDOW w AS (PARTITION BY track_id ORDER BY intent_ts)
  )
SELECT id, intent_ts, intent_dur, track_id, name, upid, process_name, pid, utid, reason,
  CASE reason
    WHEN 'activity' THEN str_split(name, 'performCreate:', 1)
    WHEN 'service' THEN str_split(str_split(name, '=', 2), ' ', 0)
    WHEN 'broadcast' THEN str_split(name, 'broadcastReceiveComp:', 1)
  END AS intent,
  bind_app_name, bind_app_ts, bind_app_dur, bind_app_id
FROM pair
WHERE bind_app_name = 'bindApplication';

-- The bindApplication slices without work of _cold_start after them: another process requested a
-- content provider.
CREATE PERFETTO TABLE _provider_start AS
SELECT s.id AS bind_app_id, s.* FROM _app_start_step s
WHERE s.name = 'bindApplication'
  AND s.id NOT IN (SELECT bind_app_id FROM _cold_start);

-- Starts of apps' processes: one row for a process, with the last order before the start.
CREATE PERFETTO TABLE android_app_process_starts(
  -- bindApplication slice of the process.
  start_id LONG,
  -- Slice in which the app handled the intent; NULL for a provider.
  id LONG,
  -- Track of this slice.
  track_id JOINID(track.id),
  -- Name of the process.
  process_name STRING,
  -- Process id.
  pid LONG,
  -- Process.
  upid JOINID(process.id),
  -- Component, or action of the intent; NULL for a provider.
  intent STRING,
  -- activity, service, broadcast or provider.
  reason STRING,
  -- When the system server began to start the process (ns).
  proc_start_ts TIMESTAMP,
  -- How long the system server took (ns).
  proc_start_dur DURATION,
  -- When the process began to bind its app (ns).
  bind_app_ts TIMESTAMP,
  -- How long the process took to bind its app (ns).
  bind_app_dur DURATION,
  -- When the app began to handle the intent (ns).
  intent_ts TIMESTAMP,
  -- How long the app handled the intent (ns).
  intent_dur DURATION,
  -- From proc_start_ts to the end of the intent, or of bindApplication for a provider (ns).
  total_dur LONG
) AS
WITH
  -- The columns beside max() come from the row with the maximum.
  with_intent AS (
    SELECT c.*, max(o.ts) AS proc_start_ts, o.dur AS proc_start_dur
    FROM _cold_start c
    JOIN _proc_start o ON o.process_name = c.process_name AND o.ts < c.intent_ts
    GROUP BY c.upid
  ),
  without AS (
    SELECT c.*, max(o.ts) AS proc_start_ts, o.dur AS proc_start_dur
    FROM _provider_start c
    JOIN _proc_start o ON o.process_name = c.process_name AND o.ts < c.ts
    GROUP BY c.upid
  )
SELECT bind_app_id AS start_id, id, track_id, process_name, pid, upid, intent, reason,
  proc_start_ts, proc_start_dur, bind_app_ts, bind_app_dur, intent_ts, intent_dur,
  intent_ts + intent_dur - proc_start_ts AS total_dur
FROM with_intent
UNION ALL
SELECT bind_app_id, NULL, NULL, process_name, pid, upid, NULL, 'provider', proc_start_ts,
  proc_start_dur, ts, dur, NULL, NULL, ts + dur - proc_start_ts
FROM without;
