SELECT kind, severity, ts, dur, text FROM verdict ORDER BY id;

SELECT name, quantity, share, in_total, has_memcg FROM reclaim_counter ORDER BY name;

SELECT ts, quantity, sum(change), sum(per_second) FROM reclaim_counter
JOIN vmstat_rate USING (name, machine_id) WHERE in_total GROUP BY ts, quantity ORDER BY 1, 2;
