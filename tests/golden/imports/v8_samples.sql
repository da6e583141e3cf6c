SELECT printf('%x', f.rel_pc), s.name, p.first_ts, p.last_ts FROM perf_map_frame p
JOIN perf_map_symbol s ON s.id = p.symbol_id JOIN stack_profile_frame f ON f.id = p.frame_id
ORDER BY f.rel_pc, p.first_ts;
SELECT printf('%x', rel_pc), name FROM stack_profile_frame;
