-- SPDX-License-Identifier: Apache-2.0
--
-- Buffers that devices share with programs (dma-buf): allocations and releases, and the threads
-- they are for. The allocator's service (gralloc) allocates for others; with binder transactions in
-- the trace a buffer counts for the thread that asked for it. The trace needs the kernel event
-- dmabuf_heap/dma_heap_stat.

CREATE PERFETTO TABLE _dmabuf_change AS
SELECT c.id, c.ts, t.utid, extract_arg(c.arg_set_id, 'inode') AS inode,
  CAST(c.value AS INTEGER) AS buf_size
FROM thread_counter_track t JOIN counter c ON c.track_id = t.id
WHERE t.name = 'mem.dma_heap_change';

-- Requests that the allocator's service answered, with the requesting thread.
CREATE PERFETTO TABLE _gralloc_request AS
SELECT h.utid, s.ts, s.ts + s.dur AS end_ts, client.utid AS client_utid
FROM process p
JOIN thread h ON h.upid = p.upid
JOIN thread_track t ON t.utid = h.utid
JOIN slice s ON s.track_id = t.id
JOIN flow f ON f.slice_in = s.id
LEFT JOIN slice asked ON asked.id = f.slice_out
LEFT JOIN thread_track client ON client.id = asked.track_id
WHERE s.name = 'binder reply'
  AND (p.name GLOB '/vendor/bin/hw/android.hardware.graphics.allocator*'
    OR p.name GLOB '/vendor/bin/hw/*gralloc.allocator*');

CREATE PERFETTO INDEX _gralloc_request_ts ON _gralloc_request(utid, ts);

-- Changes, each with the thread that requested it.
CREATE PERFETTO TABLE _dmabuf_change_for AS
SELECT d.*, coalesce(
  (SELECT r.client_utid FROM _gralloc_request r
   WHERE r.utid = d.utid AND r.ts <= d.ts AND r.end_ts >= d.ts ORDER BY r.ts DESC LIMIT 1),
  d.utid) AS for_utid
FROM _dmabuf_change d;

-- Allocations and releases of buffers. A release counts for the thread of the last change of the
-- buffer before it; releases of buffers that were there before the trace are left out.
CREATE PERFETTO TABLE android_dmabuf_allocs(
  -- Time (ns).
  ts TIMESTAMP,
  -- Size of the buffer (bytes); negative: the buffer was released.
  buf_size LONG,
  -- Inode of the buffer.
  inode LONG,
  -- Thread that the buffer is for.
  utid JOINID(thread.id),
  -- Thread id of the thread.
  tid LONG,
  -- Name of the thread.
  thread_name STRING,
  -- Process of the thread.
  upid JOINID(process.id),
  -- Process id of the process.
  pid LONG,
  -- Name of the process.
  process_name STRING
) AS
WITH
  owned AS (
    SELECT id, ts, buf_size, inode, iif(buf_size > 0, for_utid, last_value(for_utid) OVER (
        PARTITION BY inode ORDER BY ts RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS utid
    FROM _dmabuf_change_for
  )
SELECT o.ts, o.buf_size, o.inode, o.utid, t.tid, t.name AS thread_name, t.upid, p.pid,
  p.name AS process_name
FROM owned o JOIN thread t ON t.utid = o.utid LEFT JOIN process p ON p.upid = t.upid
ORDER BY o.ts, o.id;

-- Memory in buffers over time, a row for each change, summed for the process; for the thread, if
-- its process is not known.
CREATE PERFETTO TABLE android_memory_cumulative_dmabuf(
  -- Process that the buffers are for.
  upid JOINID(process.id),
  -- Name of the process.
  process_name STRING,
  -- Thread that this change is for.
  utid JOINID(thread.id),
  -- Name of the thread.
  thread_name STRING,
  -- Time (ns).
  ts TIMESTAMP,
  -- Sum of the changes since the trace began (bytes).
  value LONG
) AS
SELECT upid, process_name, utid, thread_name, ts,
  sum(buf_size) OVER (PARTITION BY upid, iif(upid IS NULL, utid, NULL) ORDER BY ts) AS value
FROM android_dmabuf_allocs ORDER BY coalesce(upid, utid), ts;
