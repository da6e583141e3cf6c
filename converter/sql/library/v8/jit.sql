-- SPDX-License-Identifier: Apache-2.0
--
-- Code of the JavaScript engine V8: scripts, functions, and the code made of them.

-- Instances of V8, a JavaScript engine.
CREATE PERFETTO VIEW v8_isolate(
    -- Unique number of the instance.
    v8_isolate_id LONG,
    -- Process.
    upid JOINID(process.id),
    -- Number of the instance in its process.
    internal_isolate_id LONG,
    -- First address of the built-in code.
    embedded_blob_code_start_address LONG,
    -- Size of the built-in code (bytes).
    embedded_blob_code_size LONG,
    -- First address of the range for the instance's code.
    code_range_base_address LONG,
    -- Size of that range (bytes).
    code_range_size LONG,
    -- 1 if the instances of the process share the range.
    shared_code_range LONG,
    -- First address of a copy of the built-in code in the range.
    embedded_blob_code_copy_start_address LONG
) AS
SELECT v8_isolate_id, upid, internal_isolate_id, embedded_blob_code_start_address,
       embedded_blob_code_size, code_range_base_address, code_range_size, shared_code_range,
       embedded_blob_code_copy_start_address
FROM main.v8_isolate;

-- Scripts of JavaScript.
CREATE PERFETTO VIEW v8_js_script(
    -- Unique number of the script.
    v8_js_script_id LONG,
    -- Instance, see v8_isolate.
    v8_isolate_id LONG,
    -- Number within the instance.
    internal_script_id LONG,
    -- NORMAL, EVAL, MODULE, ...
    script_type STRING,
    -- Name: the origin of the script.
    name STRING,
    -- Text of the script.
    source STRING
) AS
SELECT v8_js_script_id, v8_isolate_id, internal_script_id, script_type, name, source
FROM main.v8_js_script;

-- Modules of WebAssembly.
CREATE PERFETTO VIEW v8_wasm_script(
    -- Unique number of the module.
    v8_wasm_script_id LONG,
    -- Instance, see v8_isolate.
    v8_isolate_id LONG,
    -- Number within the instance.
    internal_script_id LONG,
    -- Origin of the module.
    url STRING,
    -- The module as it was loaded.
    wire_bytes BYTES,
    -- Source: always NULL, because it is not kept.
    source STRING
) AS
SELECT v8_wasm_script_id, v8_isolate_id, internal_script_id, url,
       base64_decode(wire_bytes_base64) AS wire_bytes,
       NULL AS source
FROM main.v8_wasm_script;

-- JavaScript functions.
CREATE PERFETTO VIEW v8_js_function(
    -- Unique number of the function.
    v8_js_function_id LONG,
    -- Name.
    name STRING,
    -- Script of the function, see v8_js_script.
    v8_js_script_id LONG,
    -- 1 if the function stands for the whole script.
    is_toplevel LONG,
    -- NORMAL_FUNCTION, ARROW_FUNCTION, ...
    kind STRING,
    -- Line in the script, from 1.
    line LONG,
    -- Column in the script, from 1. On line 1 it is the offset in bytes if the trace has no
    -- columns.
    col LONG
) AS
SELECT v8_js_function_id, name, v8_js_script_id, is_toplevel, kind, line, col
FROM main.v8_js_function;

-- Code that V8 made of JavaScript functions.
CREATE PERFETTO VIEW _v8_js_code(
    -- Row.
    id ID,
    -- Code, see jit_code; NULL: the code is interpreted.
    jit_code_id LONG,
    -- Function, see v8_js_function.
    v8_js_function_id LONG,
    -- Compiler: IGNITION (interpreted), ..., TURBOFAN.
    tier STRING,
    -- Code of the interpreter; only of the tier IGNITION.
    bytecode BYTES
) AS
SELECT id, jit_code_id, v8_js_function_id, tier, base64_decode(bytecode_base64) AS bytecode
FROM main.v8_js_code;

-- Code of V8 itself.
CREATE PERFETTO VIEW _v8_internal_code(
    -- Row.
    id ID,
    -- Code, see jit_code.
    jit_code_id LONG,
    -- Instance, see v8_isolate.
    v8_isolate_id LONG,
    -- Function.
    function_name STRING,
    -- BUILTIN, BYTECODE_HANDLER, ...
    code_type STRING
) AS
SELECT id, jit_code_id, v8_isolate_id, function_name, code_type
FROM main.v8_internal_code;

-- Code that V8 made of WebAssembly.
CREATE PERFETTO VIEW _v8_wasm_code(
    -- Row.
    id ID,
    -- Code, see jit_code.
    jit_code_id LONG,
    -- Instance, see v8_isolate.
    v8_isolate_id LONG,
    -- Module, see v8_wasm_script.
    v8_wasm_script_id LONG,
    -- Function.
    function_name STRING,
    -- Compiler: LIFTOFF or TURBOFAN.
    tier STRING,
    -- Offset of the function in the module.
    code_offset_in_module LONG
) AS
SELECT id, jit_code_id, v8_isolate_id, v8_wasm_script_id, function_name, tier, code_offset_in_module
FROM main.v8_wasm_code;

-- Code that V8 made of regular expressions.
CREATE PERFETTO VIEW _v8_regexp_code(
    -- Row.
    id ID,
    -- Code, see jit_code.
    jit_code_id LONG,
    -- Instance, see v8_isolate.
    v8_isolate_id LONG,
    -- Regular expression.
    pattern STRING
) AS
SELECT id, jit_code_id, v8_isolate_id, pattern
FROM main.v8_regexp_code;
