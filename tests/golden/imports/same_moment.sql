SELECT ts, cpu, name, (SELECT string_value FROM args a WHERE a.arg_set_id = e.arg_set_id
                       AND key = 'buf') AS buf FROM ftrace_event e ORDER BY id;
SELECT count(*) FROM slice;
