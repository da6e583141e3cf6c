-- SPDX-License-Identifier: Apache-2.0
--
-- Bitmaps in Java heaps. Their numbers tell the process that made them and where their pixels are:
-- PID * 10000000 + KIND * 1000000 + COUNT.

-- The process that had a process id at a time; the last process if there are several.
CREATE PERFETTO FUNCTION _android_bitmap_resolve_sender_upid(
  -- Process id.
  pid LONG,
  -- Time (ns).
  at_ts TIMESTAMP
)
-- Process; NULL if the trace has none.
RETURNS LONG AS
SELECT max(upid) FROM process
WHERE pid = $pid AND $at_ts BETWEEN ifnull(start_ts, trace_start()) AND ifnull(end_ts, trace_end());

-- The place of the pixels of a bitmap.
CREATE PERFETTO FUNCTION _android_bitmap_storage_type_name(
  -- Number of the kind.
  storage_type LONG
)
-- wrapped_pixel_ref, heap, ashmem or hardware; NULL for other numbers.
RETURNS STRING AS
SELECT CASE $storage_type WHEN 0 THEN 'wrapped_pixel_ref' WHEN 1 THEN 'heap' WHEN 2 THEN 'ashmem'
  WHEN 3 THEN 'hardware' END;

-- Bitmaps of each dump. Fields of the object are there only in dumps that have fields.
CREATE PERFETTO TABLE heap_graph_bitmaps(
  -- Object, see heap_graph_object.
  object_id JOINID(heap_graph_object.id),
  -- Process that has the bitmap.
  upid JOINID(process.upid),
  -- Time of the dump (ns).
  graph_sample_ts TIMESTAMP,
  -- Width (pixels).
  width LONG,
  -- Height (pixels).
  height LONG,
  -- Density (dots per inch).
  density LONG,
  -- Number of the bitmap.
  bitmap_id LONG,
  -- Process id of the process that made the bitmap.
  bitmap_pid LONG,
  -- Where the pixels are: wrapped_pixel_ref, heap, ashmem or hardware.
  bitmap_storage_type STRING,
  -- Number of the bitmap in the process that sent it; NULL if no process sent it.
  source_id LONG,
  -- Process id of the sender.
  source_pid LONG,
  -- Where the pixels were in the sender.
  source_storage_type STRING,
  -- Process of the sender, if the trace has it.
  source_upid JOINID(process.upid),
  -- Name of the sender's process.
  source_process_name STRING,
  -- Size of the object (bytes).
  self_size LONG,
  -- Native memory of the object (bytes): the pixels, if they are in the native heap.
  native_size LONG,
  -- Whether the object is reachable from a root.
  reachable BOOL
) AS
WITH
  bitmap AS (
    SELECT o.id AS object_id, o.upid, o.graph_sample_ts, o.self_size, o.native_size, o.reachable,
      max(p.int_value) FILTER (WHERE p.field_name GLOB '*.Bitmap.mWidth') AS width,
      max(p.int_value) FILTER (WHERE p.field_name GLOB '*.Bitmap.mHeight') AS height,
      max(p.int_value) FILTER (WHERE p.field_name GLOB '*.Bitmap.mDensity') AS density,
      max(p.long_value) FILTER (WHERE p.field_name GLOB '*.Bitmap.mId') AS bitmap_id,
      nullif(max(p.long_value) FILTER (WHERE p.field_name GLOB '*.Bitmap.mSourceId'),
             -1) AS source_id
    FROM heap_graph_class c
    JOIN heap_graph_object o ON o.type_id = c.id
    LEFT JOIN heap_graph_object_data d ON d.id = o.object_data_id
    LEFT JOIN heap_graph_primitive p
      ON p.field_set_id = d.field_set_id AND p.field_name GLOB 'android.graphics.Bitmap.m*'
    WHERE 'android.graphics.Bitmap' IN (c.name, c.deobfuscated_name)
    GROUP BY o.id
  ),
  sent AS (
    SELECT *,
           _android_bitmap_resolve_sender_upid(source_id / 10000000, graph_sample_ts) AS source_upid
    FROM bitmap
  )
SELECT s.object_id, s.upid, s.graph_sample_ts, s.width, s.height, s.density, s.bitmap_id,
  s.bitmap_id / 10000000 AS bitmap_pid,
  _android_bitmap_storage_type_name(s.bitmap_id / 1000000 % 10) AS bitmap_storage_type, s.source_id,
  s.source_id / 10000000 AS source_pid,
  _android_bitmap_storage_type_name(s.source_id / 1000000 % 10) AS source_storage_type,
  s.source_upid,
  p.name AS source_process_name, s.self_size, s.native_size, s.reachable
FROM sent s LEFT JOIN process p ON p.upid = s.source_upid;
