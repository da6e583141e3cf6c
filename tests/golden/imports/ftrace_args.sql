SELECT ts, name, cpu, utid, arg_set_id = id FROM ftrace_event ORDER BY id;
SELECT e.ts, a.flat_key, a.key, a.int_value, a.string_value, a.real_value, a.value_type,
       a.display_value FROM ftrace_event e JOIN args a USING (arg_set_id) ORDER BY a.id;
SELECT s.name, a.key, a.int_value FROM slice s JOIN args a USING (arg_set_id) WHERE s.name = 'i';
SELECT count(*) FROM slice s JOIN ftrace_event e USING (arg_set_id);
SELECT e.ts, a.int_value FROM ftrace_event e JOIN args a USING (arg_set_id)
WHERE e.name = 'mm_vmscan_kswapd_wake' AND a.key = 'order';
SELECT e.ts, (SELECT display_value FROM args a WHERE a.arg_set_id = e.arg_set_id AND a.key = 'nid')
FROM ftrace_event e WHERE e.name = 'mm_vmscan_kswapd_wake';
SELECT ts, cpu, nid, "order", zid FROM ftrace_mm_vmscan_kswapd_wake;
SELECT ts, a, b, c FROM ftrace_odd;
SELECT ts, zone, pages, delta, field_cpu, cpu FROM ftrace_vendor_scan;
SELECT ts, function FROM ftrace_workqueue_execute_start;
SELECT name, value FROM stats WHERE severity <> 'info' AND value > 0;
