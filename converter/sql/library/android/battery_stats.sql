-- SPDX-License-Identifier: Apache-2.0
--
-- Android's battery statistics of the device: states as counters, and events in pairs.

-- Words for the states: track, value, name. The values of all other tracks are plain numbers.
CREATE PERFETTO TABLE _battery_stats_word AS
WITH
  names(tracks, words) AS (
    VALUES
      ('["wifi_scan", "wifi_radio", "mobile_radio", "audio", "video", "camera", "power_save",
         "phone_in_call"]', '["inactive", "active"]'),
      ('["wifi"]', '["off", "on"]'),
      ('["phone_state"]', '["in", "out", "emergency", "off"]'),
      ('["phone_signal_strength", "wifi_signal_strength"]', '["0/4", "1/4", "2/4", "3/4", "4/4"]'),
      ('["wifi_suppl"]', '["invalid", "disconnected", "disabled", "inactive", "scanning",
         "authenticating", "associating", "associated", "4-way-handshake", "group-handshake",
         "completed", "dormant", "uninitialized"]'),
      ('["data_conn"]', '["Out of service", "2.5G (GPRS)", "2.7G (EDGE)", "3G (UMTS)", "3G (CDMA)",
         "3G (EVDO Rel 0)", "3G (EVDO Rev A)", "3G (LXRTT)", "3.5G (HSDPA)", "3.5G (HSUPA)",
         "3.5G (HSPA)", "2G (IDEN)", "3G (EVDO Rev B)", "4G (LTE)", "3.5G (eHRPD)", "3.7G (HSPA+)",
         "2G (GSM)", "3G (TD SCDMA)", "Wifi calling (IWLAN)", "4.5G (LTE CA)", "5G (NR)",
         "Emergency calls only", "Other"]')
  )
SELECT 'battery_stats.' || t.value AS track, w.key AS value, w.value AS name
FROM names n, json_each(n.tracks) t, json_each(n.words) w;

CREATE PERFETTO INDEX _battery_stats_word_track ON _battery_stats_word(track, value);

-- The name of a state.
CREATE PERFETTO FUNCTION android_battery_stats_counter_to_string(
  -- Counter, such as battery_stats.audio.
  track STRING,
  -- Value of the counter.
  value DOUBLE
)
-- Name; "unknown" for a value without a name. For other counters: the number as text.
RETURNS STRING AS
SELECT coalesce(
  (SELECT name FROM _battery_stats_word WHERE track = $track AND value = $value),
  iif($track IN (SELECT track FROM _battery_stats_word), 'unknown', CAST($value AS TEXT)));

-- States over time.
CREATE PERFETTO VIEW android_battery_stats_state(
  -- Start (ns).
  ts TIMESTAMP,
  -- Until the next state (ns); -1 for the last one.
  dur DURATION,
  -- Until the next state, or to the end of the trace for the last one (ns).
  safe_dur DURATION,
  -- Counter.
  track_name STRING,
  -- Value of the counter.
  value LONG,
  -- Name of the state.
  value_name STRING
) AS
SELECT c.ts, ifnull(lead(c.ts) OVER track - c.ts, -1) AS dur,
  lead(c.ts, 1, trace_end()) OVER track - c.ts AS safe_dur, t.name AS track_name,
  CAST(c.value AS INTEGER) AS value,
  android_battery_stats_counter_to_string(t.name, c.value) AS value_name
FROM counter_track t JOIN counter c ON c.track_id = t.id
WHERE t.name GLOB 'battery_stats.*'
WINDOW track AS (PARTITION BY t.name ORDER BY c.ts);

-- Events: a slice begins with +KIND=NUMBER:"TEXT" and ends with -KIND=NUMBER:"TEXT". If only the
-- end is in the trace, the event began before the trace. The window has the track's name, so that a
-- question about one track reads only this track.
CREATE PERFETTO VIEW android_battery_stats_event_slices(
  -- Start (ns).
  ts TIMESTAMP,
  -- Duration (ns); -1 if the end is not in the trace.
  dur DURATION,
  -- Duration (ns); until the end of the trace if the end of the event is not in the trace.
  safe_dur DURATION,
  -- Track of the events, such as battery_stats.top.
  track_name STRING,
  -- Text of the event.
  str_value STRING,
  -- Number of the event.
  int_value LONG
) AS
WITH
  mark AS (
    SELECT t.name AS track_name, str_split(s.name, '=', 1) AS what, s.ts, s.name GLOB '+*' AS begins
    FROM track t JOIN slice s ON s.track_id = t.id
    WHERE t.name GLOB 'battery_stats.*' AND s.name GLOB '[-+]*'
  ),
  paired AS (
    SELECT *, lag(ts) OVER w AS before_ts, lead(ts) OVER w AS next_ts
    FROM mark WINDOW w AS (PARTITION BY track_name, what ORDER BY ts)
  ),
  event AS (
    SELECT track_name, what, ts, next_ts AS end_ts FROM paired WHERE begins
    UNION ALL
    SELECT track_name, what, trace_start(), ts FROM paired WHERE NOT begins AND before_ts IS NULL
  )
SELECT ts, ifnull(end_ts - ts, -1) AS dur, ifnull(end_ts, trace_end()) - ts AS safe_dur, track_name,
  str_split(what, '"', 1) AS str_value, CAST(str_split(what, ':', 0) AS INTEGER) AS int_value
FROM event;
