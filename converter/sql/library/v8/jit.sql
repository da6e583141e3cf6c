-- Small views of Perfetto's module v8.jit.
CREATE TEMP VIEW IF NOT EXISTS _v8_js_code AS SELECT id, jit_code_id, v8_js_function_id, tier FROM
    v8_js_code;
CREATE TEMP VIEW IF NOT EXISTS _v8_internal_code AS SELECT * FROM v8_internal_code;
CREATE TEMP VIEW IF NOT EXISTS _v8_wasm_code AS SELECT * FROM v8_wasm_code;
CREATE TEMP VIEW IF NOT EXISTS _v8_regexp_code AS SELECT * FROM v8_regexp_code;
