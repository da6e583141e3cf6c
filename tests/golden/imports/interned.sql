SELECT ts, category, name FROM slice;

SELECT name, idx, severity, value FROM stats WHERE value AND source = 'analysis' ORDER BY name, idx;
