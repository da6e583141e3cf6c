SELECT kind, severity, ts, dur, text FROM verdict ORDER BY id;

SELECT name, sum(dur) FROM slice WHERE name = 'mm_vmscan_direct_reclaim' GROUP BY 1;

SELECT kind, process_name, episodes, dur, max_dur FROM reclaim_by_process ORDER BY kind, dur;
