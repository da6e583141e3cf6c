-- SPDX-License-Identifier: Apache-2.0
--
-- Whether the screen was on.

INCLUDE PERFETTO MODULE counters.intervals;
INCLUDE PERFETTO MODULE intervals.fill_gaps;

-- Words for the values of the counter ScreenState, Android's Display.STATE_...
CREATE PERFETTO TABLE _android_screen_state_name AS
WITH names(value, simple, short, long) AS (VALUES
  (1, 'off', 'off', 'Screen off'), (2, 'on', 'on', 'Screen on'),
  (3, 'doze', 'doze', 'Always-on display (doze)'),
  (4, 'doze', 'doze-suspend', 'Always-on display (doze-suspend)'),
  (5, 'on', 'on-vr', 'Screen on (VR)'), (6, 'on', 'on-suspend', 'Screen on (suspend)'))
SELECT value, simple, short, long FROM names;

CREATE PERFETTO TABLE _android_screen_state_known AS
SELECT i.id, i.ts, i.dur, n.simple AS simple_screen_state, n.short AS short_screen_state,
  n.long AS screen_state
FROM counter_leading_intervals!((
  SELECT c.id, c.ts, 0 AS track_id, c.value
  FROM counter_track t JOIN counter c ON c.track_id = t.id WHERE t.name = 'ScreenState'
)) i
LEFT JOIN _android_screen_state_name n ON n.value = i.value
WHERE i.dur > 0;

-- States of the screen, without gaps.
CREATE PERFETTO TABLE android_screen_state(
  -- Row.
  id ID,
  -- Start (ns).
  ts TIMESTAMP,
  -- Duration (ns).
  dur DURATION,
  -- unknown, off, doze (always-on display) or on.
  simple_screen_state STRING,
  -- As simple_screen_state, with VR and a processor that sleeps.
  short_screen_state STRING,
  -- short_screen_state in words for people.
  screen_state STRING
) AS
SELECT row_number() OVER () AS id, ts, dur,
  ifnull(simple_screen_state, 'unknown') AS simple_screen_state,
  ifnull(short_screen_state, 'unknown') AS short_screen_state,
  ifnull(screen_state, 'Unknown') AS screen_state
FROM _intervals_fill_gaps!(
  (NULL), (simple_screen_state, short_screen_state, screen_state), _android_screen_state_known);
