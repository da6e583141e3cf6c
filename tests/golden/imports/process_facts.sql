SELECT pid, key, display_value FROM process JOIN args USING (arg_set_id) ORDER BY 1, 2;

SELECT pid FROM process WHERE arg_set_id IS NULL ORDER BY 1;

SELECT fd, path, path IS NULL FROM filedescriptor;

SELECT size_kb, path, path IS NULL, path_trimmed, is_deleted FROM profiler_smaps;

SELECT c.ts, pid, value FROM counter c JOIN process_counter_track t ON t.id = c.track_id
JOIN process USING (upid) WHERE t.name = 'mem.rss.anon';

SELECT name, value FROM stats WHERE name = 'rss_stat_unknown_thread_for_mm_id';
