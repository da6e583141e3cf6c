SELECT machine_id, idx, name, value FROM stats WHERE value AND name GLOB 'ftrace_cpu_*'
ORDER BY machine_id, idx, name;
