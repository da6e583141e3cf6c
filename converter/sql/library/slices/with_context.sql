-- SPDX-License-Identifier: Apache-2.0
--
-- Slices with the threads and processes that they happened in.

INCLUDE PERFETTO MODULE std.thread.with_context;

-- Slices of threads, with the thread and the process.
CREATE PERFETTO VIEW thread_slice(
    -- Slice.
    id ID(slice.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns); -1: the slice has not ended.
    dur DURATION,
    -- Category.
    category STRING,
    -- Name of the slice.
    name STRING,
    -- Track.
    track_id JOINID(track.id),
    -- Name of the track.
    track_name STRING,
    -- Name of the thread.
    thread_name STRING,
    -- Thread.
    utid JOINID(thread.id),
    -- Number of the thread in the system.
    tid LONG,
    -- 1: the thread is the main one of its process.
    is_main_thread BOOL,
    -- Name of the process.
    process_name STRING,
    -- Process.
    upid JOINID(process.id),
    -- Number of the process in the system.
    pid LONG,
    -- Number of slices around this one.
    depth LONG,
    -- Slice right around this one.
    parent_id JOINID(slice.id),
    -- Arguments, see args.
    arg_set_id ARGSETID,
    -- Start on the thread's clock of processor time (ns).
    thread_ts TIMESTAMP,
    -- Processor time of the thread in the slice (ns).
    thread_dur LONG
) AS
SELECT s.id, s.ts, s.dur, s.category, s.name, s.track_id, t.name AS track_name,
       h.name AS thread_name, h.utid, h.tid, h.is_main_thread, p.name AS process_name, h.upid,
       p.pid, s.depth, s.parent_id, s.arg_set_id, s.thread_ts, s.thread_dur
FROM slice s JOIN thread_track t ON t.id = s.track_id JOIN thread h USING (utid)
LEFT JOIN process p USING (upid);

-- Slices of processes, with the process.
CREATE PERFETTO VIEW process_slice(
    -- Slice.
    id ID(slice.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns); -1: the slice has not ended.
    dur DURATION,
    -- Category.
    category STRING,
    -- Name of the slice.
    name STRING,
    -- Track.
    track_id JOINID(track.id),
    -- Name of the track.
    track_name STRING,
    -- Name of the process.
    process_name STRING,
    -- Process.
    upid JOINID(process.id),
    -- Number of the process in the system.
    pid LONG,
    -- Number of slices around this one.
    depth LONG,
    -- Slice right around this one.
    parent_id JOINID(slice.id),
    -- Arguments, see args.
    arg_set_id ARGSETID,
    -- Start on the thread's clock of processor time (ns).
    thread_ts TIMESTAMP,
    -- Processor time of the thread in the slice (ns).
    thread_dur LONG
) AS
SELECT s.id, s.ts, s.dur, s.category, s.name, s.track_id, t.name AS track_name,
       p.name AS process_name, p.upid, p.pid, s.depth, s.parent_id, s.arg_set_id, s.thread_ts,
       s.thread_dur
FROM slice s JOIN process_track t ON t.id = s.track_id JOIN process p USING (upid);

-- Slices of threads, then slices of processes.
CREATE PERFETTO VIEW thread_or_process_slice(
    -- Slice.
    id JOINID(slice.id),
    -- Start (ns).
    ts TIMESTAMP,
    -- Duration (ns); -1: the slice has not ended.
    dur DURATION,
    -- Category.
    category STRING,
    -- Name of the slice.
    name STRING,
    -- Track.
    track_id JOINID(track.id),
    -- Name of the track.
    track_name STRING,
    -- Name of the thread; NULL for slices of processes.
    thread_name STRING,
    -- Thread; NULL for slices of processes.
    utid JOINID(thread.id),
    -- Number of the thread in the system; NULL for slices of processes.
    tid LONG,
    -- Name of the process.
    process_name STRING,
    -- Process.
    upid JOINID(process.id),
    -- Number of the process in the system.
    pid LONG,
    -- Number of slices around this one.
    depth LONG,
    -- Slice right around this one.
    parent_id JOINID(slice.id),
    -- Arguments, see args.
    arg_set_id ARGSETID
) AS
SELECT id, ts, dur, category, name, track_id, track_name, thread_name, utid, tid, process_name,
       upid, pid, depth, parent_id, arg_set_id
FROM thread_slice
UNION ALL
SELECT id, ts, dur, category, name, track_id, track_name, NULL, NULL, NULL, process_name, upid,
       pid, depth, parent_id, arg_set_id
FROM process_slice;

-- The threads that have slices, for IN: most threads of a long trace have none.
CREATE PERFETTO MACRO _threads_with_slices()
RETURNS TableOrSubquery AS
SELECT utid FROM thread_track WHERE id IN (SELECT track_id FROM slice);
