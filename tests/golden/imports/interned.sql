SELECT ts, category, name FROM slice;

SELECT name, idx, severity, value FROM stats
WHERE value AND source = 'analysis' AND name <> 'parse_trace_duration_ns' ORDER BY name, idx;
