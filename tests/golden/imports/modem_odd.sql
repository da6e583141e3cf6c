SELECT s.ts, s.name, (SELECT group_concat(key || '=' || coalesce(display_value, 'NULL'), ' ')
                      FROM args a WHERE a.arg_set_id = s.arg_set_id) FROM slice s ORDER BY s.ts;
SELECT name, value FROM stats WHERE value > 0 AND (name GLOB '*modem*') ORDER BY name;
