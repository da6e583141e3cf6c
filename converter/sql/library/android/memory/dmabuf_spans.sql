-- SPDX-License-Identifier: Apache-2.0
--
-- Memory that processes have in shared buffers (dma-buf), from readings of /proc.

INCLUDE PERFETTO MODULE counters.intervals;

-- One row for each period in which a process's memory in buffers was constant: upid, ts and dur
-- (ns), and dmabuf_rss (bytes).
CREATE PERFETTO TABLE _dmabuf_spans AS
SELECT t.upid, i.ts, i.dur, CAST(i.value AS INTEGER) AS dmabuf_rss
FROM counter_leading_intervals!((
  SELECT c.id, c.ts, c.track_id, c.value
  FROM counter_track t JOIN counter c ON c.track_id = t.id
  WHERE t.name = 'mem.dmabuf_rss'
)) i
JOIN process_counter_track t ON t.id = i.track_id;
