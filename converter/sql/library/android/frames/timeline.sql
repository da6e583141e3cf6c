-- SPDX-License-Identifier: Apache-2.0
--
-- Frames that Android's apps drew.

INCLUDE PERFETTO MODULE android.frames.timeline_maxsdk28;
INCLUDE PERFETTO MODULE slices.with_context;

-- Slices of threads whose second word is the number of a frame: id, frame_id, utid, upid, ts (ns).
-- Slices whose second word is 0, -1 or not a number are left out.
CREATE PERFETTO MACRO _numbered_frame_slice(
  -- Pattern of the slices' names, for GLOB.
  glob_str Expr,
  -- Slices of threads.
  slices TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT id, frame_id, utid, upid, ts
  FROM (
    SELECT id, cast_int!(str_split(name, ' ', 1)) AS frame_id, utid, upid, ts FROM $slices
    WHERE name GLOB $glob_str
  )
  WHERE frame_id NOT IN (0, -1)
);

-- Slices with the ids of their frames, for any pattern of names.
CREATE PERFETTO FUNCTION _get_frame_table_with_id(
  -- Pattern of the slices' names, for GLOB.
  glob_str STRING
)
RETURNS TABLE(
  -- Slice.
  id ID(slice.id),
  -- Number of the frame.
  frame_id LONG,
  -- Thread.
  utid JOINID(thread.id),
  -- Process.
  upid JOINID(process.id),
  -- Start of the slice (ns).
  ts TIMESTAMP
) AS
SELECT id, frame_id, utid, upid, ts FROM _numbered_frame_slice!($glob_str, thread_slice);

-- The work of main threads for frames: slices Choreographer#doFrame N.
CREATE PERFETTO TABLE android_frames_choreographer_do_frame(
  -- Slice.
  id ID(slice.id),
  -- Number of the frame.
  frame_id LONG,
  -- Main thread.
  ui_thread_utid JOINID(thread.id),
  -- Process.
  upid JOINID(process.id),
  -- Start of the slice (ns).
  ts TIMESTAMP
) AS
SELECT id, frame_id, utid AS ui_thread_utid, upid, ts
FROM _numbered_frame_slice!('Choreographer#doFrame*', _frame_slice);

-- The drawing of frames: slices DrawFrame N. A frame with several layers may have several.
CREATE PERFETTO TABLE android_frames_draw_frame(
  -- Slice.
  id ID(slice.id),
  -- Number of the frame.
  frame_id LONG,
  -- Thread that drew.
  render_thread_utid JOINID(thread.id),
  -- Process.
  upid JOINID(process.id)
) AS
SELECT id, frame_id, utid AS render_thread_utid, upid
FROM _numbered_frame_slice!('DrawFrame*', _frame_slice);

CREATE PERFETTO INDEX android_frames_draw_frame_number ON android_frames_draw_frame(frame_id, upid);

-- The frames of each layer as the display showed them: frame_id, layer_id, layer_name, slice_id, ts
-- and dur (ns), upid.
CREATE PERFETTO TABLE _distinct_layer_actual_timeline_slice_per_process AS
SELECT cast_int!(name) AS frame_id, cast_int!(str_split(layer_name, '#', 1)) AS layer_id,
  layer_name, id AS slice_id, ts, dur, upid
FROM actual_frame_timeline_slice;

CREATE PERFETTO INDEX _distinct_layer_actual_number
ON _distinct_layer_actual_timeline_slice_per_process(frame_id, upid);

-- The expected times of frames: frame_id, upid, id of the slice.
CREATE PERFETTO TABLE _distinct_from_expected_timeline_slice_per_process AS
SELECT cast_int!(name) AS frame_id, upid, id FROM expected_frame_timeline_slice;

CREATE PERFETTO INDEX _distinct_from_expected_number
ON _distinct_from_expected_timeline_slice_per_process(frame_id, upid);

-- Frames with each of their layers and drawings. If the trace has no timeline of the display,
-- frames are found as for Android 9.
CREATE PERFETTO TABLE android_frames_layers(
  -- Number of the frame.
  frame_id LONG,
  -- Begin, of the display's frame if there is one, else of the main thread's work (ns).
  ts TIMESTAMP,
  -- Duration of the display's frame; without a frame, until the end of the drawing (ns).
  dur DURATION,
  -- End (ns).
  ts_end TIMESTAMP,
  -- Slice of the main thread.
  do_frame_id JOINID(slice.id),
  -- Slice of the drawing.
  draw_frame_id JOINID(slice.id),
  -- Slice of actual_frame_timeline_slice.
  actual_frame_timeline_id JOINID(slice.id),
  -- Slice of expected_frame_timeline_slice.
  expected_frame_timeline_id JOINID(slice.id),
  -- Thread that drew.
  render_thread_utid JOINID(thread.id),
  -- Main thread.
  ui_thread_utid JOINID(thread.id),
  -- Number of the layer.
  layer_id LONG,
  -- Name of the layer.
  layer_name STRING,
  -- Process; NULL if nothing tells when the frame was due.
  upid JOINID(process.id),
  -- Name of the process.
  process_name STRING
) AS
WITH
  frame AS MATERIALIZED (
    SELECT w.frame_id, w.upid, w.ts, d_slice.ts + d_slice.dur - w.ts AS dur, w.id AS do_frame_id,
      d.id AS draw_frame_id, d.render_thread_utid, w.ui_thread_utid
    FROM android_frames_choreographer_do_frame w
    JOIN android_frames_draw_frame d ON d.frame_id = w.frame_id AND d.upid = w.upid
    JOIN slice d_slice ON d_slice.id = d.id
  ),
  -- The times come from any drawing with the frame's number.
  numbered AS (
    SELECT f.frame_id, ifnull(a.ts, any.ts) AS ts, ifnull(a.dur, any.dur) AS dur, f.do_frame_id,
      f.draw_frame_id, f.render_thread_utid, f.ui_thread_utid, e.upid, p.name AS process_name,
      a.slice_id AS actual_frame_timeline_id, e.id AS expected_frame_timeline_id, a.layer_id,
      a.layer_name
    FROM frame f
    JOIN frame any ON any.frame_id = f.frame_id
    JOIN process p ON p.upid = f.upid
    LEFT JOIN _distinct_layer_actual_timeline_slice_per_process a
      ON a.frame_id = f.frame_id AND a.upid = f.upid
    LEFT JOIN _distinct_from_expected_timeline_slice_per_process e
      ON e.frame_id = f.frame_id AND e.upid = f.upid
    WHERE EXISTS (SELECT 1 FROM actual_frame_timeline_slice)
  )
SELECT frame_id, ts, dur, ts + dur AS ts_end, do_frame_id, draw_frame_id, actual_frame_timeline_id,
  expected_frame_timeline_id, render_thread_utid, ui_thread_utid, layer_id, layer_name, upid,
  process_name
FROM (
  SELECT * FROM numbered
  UNION
  SELECT frame_id, ts, dur, do_frame_id, draw_frame_id, render_thread_utid, ui_thread_utid, upid,
    process_name, NULL, NULL, NULL, NULL
  FROM _frames_maxsdk_28
  WHERE NOT EXISTS (SELECT 1 FROM actual_frame_timeline_slice)
);

-- Frames: the layers and drawings of a frame in a process are one row.
CREATE PERFETTO TABLE android_frames(
  -- Number of the frame.
  frame_id LONG,
  -- Start of the earliest layer (ns).
  ts TIMESTAMP,
  -- Duration of the longest layer (ns).
  dur DURATION,
  -- First slice of the main thread.
  do_frame_id JOINID(slice.id),
  -- First slice of the drawing.
  draw_frame_id JOINID(slice.id),
  -- First slice of actual_frame_timeline_slice.
  actual_frame_timeline_id JOINID(slice.id),
  -- Slice of expected_frame_timeline_slice.
  expected_frame_timeline_id JOINID(slice.id),
  -- Thread that drew.
  render_thread_utid JOINID(thread.id),
  -- Main thread.
  ui_thread_utid JOINID(thread.id),
  -- How many slices of actual_frame_timeline_slice the frame has.
  actual_frame_timeline_count LONG,
  -- Always 1.
  expected_frame_timeline_count LONG,
  -- How many drawings the frame has.
  draw_frame_count LONG,
  -- Process.
  upid JOINID(process.id),
  -- Name of the process.
  process_name STRING
) AS
SELECT frame_id, min(ts) AS ts, max(dur) AS dur, min(do_frame_id) AS do_frame_id,
  min(draw_frame_id) AS draw_frame_id, min(actual_frame_timeline_id) AS actual_frame_timeline_id,
  expected_frame_timeline_id, render_thread_utid, ui_thread_utid,
  count(DISTINCT actual_frame_timeline_id) AS actual_frame_timeline_count,
  1 AS expected_frame_timeline_count, count(DISTINCT draw_frame_id) AS draw_frame_count, upid,
  process_name
FROM android_frames_layers
GROUP BY frame_id, upid;

CREATE PERFETTO INDEX android_frames_ts ON android_frames(ts);

-- The first frame after a moment: one row or none.
CREATE PERFETTO FUNCTION android_first_frame_after(
  -- Moment (ns).
  ts TIMESTAMP
)
RETURNS TABLE(
  -- Number of the frame.
  frame_id LONG,
  -- Start (ns).
  ts TIMESTAMP,
  -- Duration (ns).
  dur DURATION,
  -- Slice of the main thread.
  do_frame_id JOINID(slice.id),
  -- Slice of the drawing.
  draw_frame_id JOINID(slice.id),
  -- Slice of actual_frame_timeline_slice.
  actual_frame_timeline_id JOINID(slice.id),
  -- Slice of expected_frame_timeline_slice.
  expected_frame_timeline_id JOINID(slice.id),
  -- Thread that drew.
  render_thread_utid JOINID(thread.id),
  -- Main thread.
  ui_thread_utid JOINID(thread.id)
) AS
SELECT frame_id, ts, dur, do_frame_id, draw_frame_id, actual_frame_timeline_id,
  expected_frame_timeline_id, render_thread_utid, ui_thread_utid
FROM android_frames WHERE ts > $ts ORDER BY ts LIMIT 1;
