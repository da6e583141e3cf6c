SELECT i.*, p.pid FROM v8_isolate i JOIN process p USING (upid);
SELECT * FROM v8_js_script;
SELECT * FROM v8_js_function;
SELECT * FROM v8_wasm_script;
SELECT create_ts, estimated_delete_ts, t.tid, p.pid, printf('%x', start_address), size,
       function_name, native_code_base64 FROM jit_code LEFT JOIN thread t USING (utid)
       LEFT JOIN process p USING (upid) ORDER BY create_ts;
SELECT c.id, c.tier, f.name, j.create_ts, c.bytecode_base64 FROM v8_js_code c
JOIN v8_js_function f USING (v8_js_function_id) LEFT JOIN jit_code j USING (jit_code_id);
SELECT c.id, c.v8_isolate_id, c.function_name, c.code_type, j.create_ts FROM v8_internal_code c
JOIN jit_code j USING (jit_code_id);
SELECT c.id, c.v8_isolate_id, c.v8_wasm_script_id, c.function_name, c.tier, c.code_offset_in_module,
       j.create_ts FROM v8_wasm_code c JOIN jit_code j USING (jit_code_id);
SELECT c.id, c.v8_isolate_id, c.pattern, j.create_ts FROM v8_regexp_code c
JOIN jit_code j USING (jit_code_id);
SELECT m.path, m.pid, m.n_symbols, printf('%x', s.start), s.size, s.name, s.first_ts, s.last_ts
FROM perf_map m JOIN perf_map_symbol s ON s.perf_map_id = m.id ORDER BY s.first_ts, s.start;
SELECT name, value FROM stats WHERE value > 0 AND (name GLOB 'v8*' OR name GLOB 'mmsql*')
ORDER BY name;
