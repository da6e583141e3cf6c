SELECT s.name, t.machine_id,
       (SELECT string_value FROM args a
        WHERE a.arg_set_id = s.arg_set_id AND key = 'render_target_name') FROM slice s
        JOIN track t ON t.id = s.track_id ORDER BY s.ts;
SELECT o.name, i.name FROM flow f JOIN slice o ON o.id = f.slice_out
JOIN slice i ON i.id = f.slice_in ORDER BY o.ts, i.ts;
SELECT m.pid, p.machine_id, m.n_symbols, m.n_bad_lines,
       (SELECT group_concat(name) FROM perf_map_symbol s WHERE s.perf_map_id = m.id) FROM perf_map m
       LEFT JOIN process p USING (upid) ORDER BY p.machine_id;
SELECT name, value FROM stats WHERE name LIKE 'mmsql_perf_map%';
