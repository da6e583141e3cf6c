-- Small views of Perfetto's module slices.with_context.
CREATE TEMP VIEW IF NOT EXISTS thread_slice AS SELECT s.id, s.ts, s.dur, s.category, s.name,
    s.track_id, t.name AS track_name, h.name AS thread_name, h.utid, h.tid, h.is_main_thread,
    p.name AS process_name, h.upid, p.pid, s.depth, s.parent_id, s.arg_set_id, s.thread_ts,
    s.thread_dur FROM slice s JOIN thread_track t ON t.id = s.track_id JOIN thread h USING (utid)
    LEFT JOIN process p USING (upid);
CREATE TEMP VIEW IF NOT EXISTS process_slice AS SELECT s.id, s.ts, s.dur, s.category, s.name,
    s.track_id, t.name AS track_name, p.name AS process_name, p.upid, p.pid, s.depth, s.parent_id,
    s.arg_set_id, s.thread_ts, s.thread_dur FROM slice s JOIN process_track t ON t.id = s.track_id
    JOIN process p USING (upid);
CREATE TEMP VIEW IF NOT EXISTS thread_or_process_slice AS SELECT id, ts, dur, category, name,
    track_id, track_name, thread_name, utid, tid, is_main_thread, process_name, upid, pid, depth,
    parent_id, arg_set_id FROM thread_slice UNION ALL SELECT id, ts, dur, category, name,
    track_id, track_name, NULL, NULL, NULL, NULL, process_name, upid, pid, depth, parent_id,
    arg_set_id FROM process_slice;
