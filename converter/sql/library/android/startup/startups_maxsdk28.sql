-- SPDX-License-Identifier: Apache-2.0
--
-- Launches of activities on Android up to version 9 (SDK 28).

INCLUDE PERFETTO MODULE android.frames.timeline;
INCLUDE PERFETTO MODULE android.startup.startup_events;

-- Launches in order of time: ts, ts_end and dur (ns), package, startup_type. The system server
-- shows cold and warm launches. A hot launch is an activityResume outside of these launches, up to
-- the end of the next frame; the name of its process stands for the package.
CREATE PERFETTO TABLE _startups_maxsdk28 AS
SELECT ts, ts_end, ts_end - ts AS dur, package, startup_type
FROM (
  SELECT ts, ts_end, package_name AS package, NULL AS startup_type FROM _startup_events
  UNION ALL
  SELECT s.ts, f.ts + f.dur, coalesce(p.name, h.name, 'unknown'), 'hot'
  FROM _startup_slice s
  CROSS JOIN thread_track t ON t.id = s.track_id
  CROSS JOIN thread h ON h.utid = t.utid
  LEFT JOIN process p ON p.upid = h.upid
  JOIN android_first_frame_after(s.ts) f
  WHERE s.name = 'activityResume' AND h.is_main_thread
    AND NOT EXISTS (SELECT 1 FROM _startup_events e WHERE s.ts BETWEEN e.ts AND e.ts_end)
)
ORDER BY ts;
