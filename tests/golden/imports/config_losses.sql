SELECT key, printf('%.3f', confidence), trace_id FROM trace_diagnostics ORDER BY id;
SELECT description FROM trace_diagnostics ORDER BY id;
SELECT name, int_value, str_value FROM metadata WHERE name LIKE 'android%' OR name LIKE 'tracing%'
ORDER BY name;
SELECT android_sdk_version FROM machine;
