-- Small views of Perfetto's module stack_trace.jit.
CREATE TEMP VIEW IF NOT EXISTS _jit_code AS SELECT jit_code_id, create_ts, estimated_delete_ts,
    utid, start_address, size, function_name FROM jit_code;
