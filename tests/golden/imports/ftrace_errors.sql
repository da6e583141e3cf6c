SELECT name, idx, value, severity FROM stats WHERE value AND name GLOB '*ftrace*'
ORDER BY name, idx;
