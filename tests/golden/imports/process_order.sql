SELECT upid, pid, name FROM process ORDER BY upid;
SELECT upid, pid, path, n_symbols FROM perf_map ORDER BY id;
SELECT ts, upid, arena, system_bytes FROM malloc_arena ORDER BY ts, arena;
