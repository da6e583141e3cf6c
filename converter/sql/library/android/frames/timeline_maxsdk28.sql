-- SPDX-License-Identifier: Apache-2.0
--
-- Frames on Android up to version 9 (SDK 28), whose slices have no numbers of frames.

-- Slices of threads about frames: id, ts and dur (ns), name, utid, upid, process_name,
-- is_main_thread. One walk over all slices finds them. The ranges contain the names that begin with
-- Choreographer#doFrame and DrawFrame, and cost less than patterns.
CREATE PERFETTO TABLE _frame_slice AS
WITH found AS MATERIALIZED (
  SELECT id, ts, dur, track_id, name FROM slice
  WHERE (name >= 'Choreographer#doFrame' AND name < 'Choreographer#doFramf')
    OR (name >= 'DrawFrame' AND name < 'DrawFramf')
)
SELECT f.id, f.ts, f.dur, f.name, h.utid, h.upid, p.name AS process_name, h.is_main_thread
FROM found f
CROSS JOIN thread_track t ON t.id = f.track_id
CROSS JOIN thread h ON h.utid = t.utid
LEFT JOIN process p ON p.upid = h.upid;

-- Frames in order of time. A frame is the work of the main thread (Choreographer#doFrame), and each
-- drawing (DrawFrame) that the process begins before its next frame. A frame with several drawings
-- has a row for each drawing.
CREATE PERFETTO TABLE _frames_maxsdk_28(
  -- Row, from 1.
  frame_id LONG,
  -- Start (ns).
  ts TIMESTAMP,
  -- Until the end of the last drawing (ns).
  dur DURATION,
  -- Slice of the main thread.
  do_frame_id JOINID(slice.id),
  -- Slice of the drawing.
  draw_frame_id JOINID(slice.id),
  -- Thread that drew.
  render_thread_utid JOINID(thread.id),
  -- Main thread.
  ui_thread_utid JOINID(thread.id),
  -- maxsdk28.
  sdk STRING,
  -- Process.
  upid JOINID(process.id),
  -- Name of the process.
  process_name STRING
) AS
WITH
  work AS (
    SELECT id, ts, utid, upid, process_name,
      lead(ts, 1, trace_end()) OVER (PARTITION BY upid ORDER BY ts) AS next_ts
    FROM _frame_slice
    WHERE name = 'Choreographer#doFrame' AND is_main_thread = 1
  ),
  drawing AS (SELECT id, ts, ts + dur AS ts_end, utid, upid FROM _frame_slice
              WHERE name = 'DrawFrame')
SELECT row_number() OVER (ORDER BY w.ts, w.id, d.ts) AS frame_id, w.ts,
  max(d.ts_end) OVER (PARTITION BY w.id) - w.ts AS dur, w.id AS do_frame_id, d.id AS draw_frame_id,
  d.utid AS render_thread_utid, w.utid AS ui_thread_utid, w.upid, w.process_name,
  'maxsdk28' AS sdk
FROM work w JOIN drawing d ON d.upid = w.upid AND d.ts >= w.ts AND d.ts < w.next_ts
ORDER BY w.ts, w.id, d.ts;
