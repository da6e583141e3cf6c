// SPDX-License-Identifier: Apache-2.0
//
// The tables of V8's code. schema.h explains the lists.
#pragma once

#define V8_TABLE_LIST(T)                                                                           \
    T(jit_code, "Code that V8 made at run time.")                                                  \
    T(v8_internal_code, "Code of V8 itself.")                                                      \
    T(v8_isolate, "Instances of V8, a JavaScript engine.")                                         \
    T(v8_js_code, "Code that V8 made of JavaScript functions.")                                    \
    T(v8_js_function, "JavaScript functions.")                                                     \
    T(v8_js_script, "Scripts of JavaScript.")                                                      \
    T(v8_regexp_code, "Code that V8 made of regular expressions.")                                 \
    T(v8_wasm_code, "Code that V8 made of WebAssembly.")                                           \
    T(v8_wasm_script, "Modules of WebAssembly.")

#define COLUMNS_jit_code(K, C, G)                                                                  \
    K(jit_code, jit_code_id, "Unique number of the code.")                                         \
    C(jit_code, create_ts, INT, "When the code was made (ns).")                                    \
    C(jit_code, estimated_delete_ts, INT,                                                          \
      "When other code took the address (ns); this code ended at or before this time; NULL: not "  \
      "seen.")                                                                                     \
    C(jit_code, utid, INT, "Thread that made the code.")                                           \
    C(jit_code, start_address, INT, "First address when the code was made.")                       \
    C(jit_code, size, INT, "Size (bytes).")                                                        \
    C(jit_code, function_name, TEXT, "Function.")                                                  \
    C(jit_code, native_code_base64, TEXT, "The code itself, in base64; empty: not recorded.")

#define COLUMNS_v8_internal_code(K, C, G)                                                          \
    K(v8_internal_code, id, "Row.")                                                                \
    C(v8_internal_code, jit_code_id, INT, "Code, see jit_code.")                                   \
    C(v8_internal_code, v8_isolate_id, INT, "Instance, see v8_isolate.")                           \
    C(v8_internal_code, function_name, TEXT, "Function.")                                          \
    C(v8_internal_code, code_type, TEXT, "BUILTIN, BYTECODE_HANDLER, ...")

#define COLUMNS_v8_isolate(K, C, G)                                                                \
    K(v8_isolate, v8_isolate_id, "Unique number of the instance.")                                 \
    C(v8_isolate, upid, INT, "Process.")                                                           \
    C(v8_isolate, internal_isolate_id, INT, "Number of the instance in its process.")              \
    C(v8_isolate, embedded_blob_code_start_address, INT, "First address of the built-in code.")    \
    C(v8_isolate, embedded_blob_code_size, INT, "Size of the built-in code (bytes).")              \
    C(v8_isolate, code_range_base_address, INT,                                                    \
      "First address of the range for the instance's code.")                                       \
    C(v8_isolate, code_range_size, INT, "Size of that range (bytes).")                             \
    C(v8_isolate, shared_code_range, INT, "1 if the instances of the process share the range.")    \
    C(v8_isolate, embedded_blob_code_copy_start_address, INT,                                      \
      "First address of a copy of the built-in code in the range.")

#define COLUMNS_v8_js_code(K, C, G)                                                                \
    K(v8_js_code, id, "Row.")                                                                      \
    C(v8_js_code, jit_code_id, INT, "Code, see jit_code; NULL: the code is interpreted.")          \
    C(v8_js_code, v8_js_function_id, INT, "Function, see v8_js_function.")                         \
    C(v8_js_code, tier, TEXT, "Compiler: IGNITION (interpreted), ..., TURBOFAN.")                  \
    C(v8_js_code, bytecode_base64, TEXT, "Code for the interpreter, in base64.")

#define COLUMNS_v8_js_function(K, C, G)                                                            \
    K(v8_js_function, v8_js_function_id, "Unique number of the function.")                         \
    C(v8_js_function, name, TEXT, "Name.")                                                         \
    C(v8_js_function, v8_js_script_id, INT, "Script of the function, see v8_js_script.")           \
    C(v8_js_function, is_toplevel, INT, "1 if the function stands for the whole script.")          \
    C(v8_js_function, kind, TEXT, "NORMAL_FUNCTION, ARROW_FUNCTION, ...")                          \
    C(v8_js_function, line, INT, "Line in the script, from 1.")                                    \
    C(v8_js_function, col, INT,                                                                    \
      "Column in the script, from 1. On line 1 it is the offset in bytes if the trace has no "     \
      "columns.")

#define COLUMNS_v8_js_script(K, C, G)                                                              \
    K(v8_js_script, v8_js_script_id, "Unique number of the script.")                               \
    C(v8_js_script, v8_isolate_id, INT, "Instance, see v8_isolate.")                               \
    C(v8_js_script, internal_script_id, INT, "Number of the script in its instance.")              \
    C(v8_js_script, script_type, TEXT, "NORMAL, EVAL, MODULE, ...")                                \
    C(v8_js_script, name, TEXT, "Name: the origin of the script.")                                 \
    C(v8_js_script, source, TEXT, "Text of the script.")

#define COLUMNS_v8_regexp_code(K, C, G)                                                            \
    K(v8_regexp_code, id, "Row.")                                                                  \
    C(v8_regexp_code, jit_code_id, INT, "Code, see jit_code.")                                     \
    C(v8_regexp_code, v8_isolate_id, INT, "Instance, see v8_isolate.")                             \
    C(v8_regexp_code, pattern, TEXT, "Regular expression.")

#define COLUMNS_v8_wasm_code(K, C, G)                                                              \
    K(v8_wasm_code, id, "Row.")                                                                    \
    C(v8_wasm_code, jit_code_id, INT, "Code, see jit_code.")                                       \
    C(v8_wasm_code, v8_isolate_id, INT, "Instance, see v8_isolate.")                               \
    C(v8_wasm_code, v8_wasm_script_id, INT, "Module, see v8_wasm_script.")                         \
    C(v8_wasm_code, function_name, TEXT, "Function.")                                              \
    C(v8_wasm_code, tier, TEXT, "Compiler: LIFTOFF or TURBOFAN.")                                  \
    C(v8_wasm_code, code_offset_in_module, INT, "Offset of the function in the module.")

#define COLUMNS_v8_wasm_script(K, C, G)                                                            \
    K(v8_wasm_script, v8_wasm_script_id, "Unique number of the module.")                           \
    C(v8_wasm_script, v8_isolate_id, INT, "Instance, see v8_isolate.")                             \
    C(v8_wasm_script, internal_script_id, INT, "Number of the module in its instance.")            \
    C(v8_wasm_script, url, TEXT, "Origin of the module.")                                          \
    C(v8_wasm_script, wire_bytes_base64, TEXT, "The module itself, in base64.")
