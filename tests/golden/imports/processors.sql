SELECT cpu, processor,
       (SELECT group_concat(key || '=' || value_type || ' ' || display_value, ', ') FROM args a
        WHERE a.arg_set_id = c.arg_set_id) AS args FROM cpu c ORDER BY id;
SELECT name, machine_id, value FROM stats WHERE name GLOB 'cpu_info*' AND value;
SELECT name, ts, arg_set_id FROM _trace_import_logs;
