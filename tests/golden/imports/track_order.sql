SELECT utid, tid, upid FROM thread ORDER BY utid;
SELECT t.upid, p.pid, t.name FROM process_track t JOIN process p USING (upid) ORDER BY p.pid;
SELECT s.name, s.ts, e.name, e.ts FROM flow f JOIN slice s ON s.id = f.slice_out
JOIN slice e ON e.id = f.slice_in;
