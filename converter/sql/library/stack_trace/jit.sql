-- SPDX-License-Identifier: Apache-2.0
--
-- Code that programs made while they ran.

-- Code that V8 made at run time.
CREATE PERFETTO VIEW _jit_code(
    -- Unique number of the code.
    jit_code_id LONG,
    -- When the code was made (ns).
    create_ts TIMESTAMP,
    -- When other code took the address (ns); this code ended at or before this time; NULL: not
    -- seen.
    estimated_delete_ts TIMESTAMP,
    -- Thread that made the code.
    utid JOINID(thread.id),
    -- First address when the code was made.
    start_address LONG,
    -- Size (bytes).
    size LONG,
    -- Function.
    function_name STRING,
    -- The code itself.
    native_code BYTES
) AS
SELECT jit_code_id, create_ts, estimated_delete_ts, utid, start_address, size, function_name,
       base64_decode(native_code_base64) AS native_code
FROM main.jit_code;

-- Frames of samples in code of _jit_code. Code may move, and other code may take its place. If a
-- frame's address had several pieces of code in turn, the frame has a row for each.
CREATE PERFETTO VIEW _jit_frame(
    -- Code, see _jit_code.
    jit_code_id LONG,
    -- Frame, see stack_profile_frame.
    frame_id LONG
) AS
SELECT DISTINCT s.jit_code_id, p.frame_id
FROM main.perf_map_frame p JOIN main.perf_map_symbol s ON s.id = p.symbol_id
WHERE s.jit_code_id IS NOT NULL;
