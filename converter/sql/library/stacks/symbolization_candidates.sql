-- SPDX-License-Identifier: Apache-2.0
--
-- Frames of profiles that have no symbols.

INCLUDE PERFETTO MODULE stacks.cpu_profiling;

-- The name of a file of Chrome on a server of symbols for Breakpad. Breakpad reads the first 16
-- bytes of the build id as a number of 4 bytes, two numbers of 2 bytes, and 8 single bytes. The
-- name has these numbers in hexadecimal digits, and then 0 for the age.
CREATE PERFETTO FUNCTION _to_breakpad_module(
  -- File.
  mapping STRING,
  -- Build id of the file, in hexadecimal digits.
  build_id STRING
)
-- Name; NULL for other files, or if the build id is short.
RETURNS STRING AS
SELECT group_concat(substr($build_id, value, iif(value = 17, 16, 2)), '') || '0'
FROM json_each('[7, 5, 3, 1, 11, 9, 15, 13, 17]')
WHERE length($build_id) >= 40 AND EXISTS (
  SELECT 1 FROM json_each('["libchrome.so", "libmonochrome.so", "libmonochrome_64.so",
    "libwebviewchromium.so", "libchromium_android_linker.so"]') name
  WHERE $mapping GLOB '*' || name.value)
HAVING count(*) > 0;

-- Frames without symbols in the call stacks of each process.
CREATE PERFETTO TABLE _stacks_symbolization_candidates(
  -- Process.
  upid JOINID(process.id),
  -- File that has the code.
  module STRING,
  -- Build id of the file, in hexadecimal digits.
  build_id STRING,
  -- Address in the file.
  rel_pc LONG,
  -- Name of the file for Breakpad; only for Chrome's.
  breakpad_module_id STRING
) AS
WITH
  used AS (
    SELECT DISTINCT t.upid, s.callsite_id
    FROM cpu_profiling_samples s JOIN thread t ON t.utid = s.utid WHERE t.upid IS NOT NULL
    UNION ALL
    SELECT DISTINCT upid, callsite_id FROM heap_profile_allocation
  ),
  stack AS (
    SELECT c0 AS upid, c1 AS callsite_id
    FROM __intrinsic_table_ptr((
      SELECT __intrinsic_forest_reach(x.id, x.parent_id, x.upid)
      FROM (
        SELECT id, parent_id, NULL AS upid FROM stack_profile_callsite
        UNION ALL
        SELECT callsite_id, NULL, upid FROM used
      ) x
    ))
    WHERE __intrinsic_table_ptr_bind(c0, 'group_id') AND __intrinsic_table_ptr_bind(c1, 'id')
  ),
  frame AS (
    SELECT DISTINCT s.upid, f.mapping, f.rel_pc
    FROM (
      SELECT DISTINCT s.upid, c.frame_id
      FROM stack s CROSS JOIN stack_profile_callsite c ON c.id = s.callsite_id
    ) s
    JOIN stack_profile_frame f ON f.id = s.frame_id
    WHERE f.symbol_set_id IS NULL
  )
SELECT f.upid, m.name AS module, m.build_id, f.rel_pc,
  _to_breakpad_module(m.name, m.build_id) AS breakpad_module_id
FROM frame f JOIN stack_profile_mapping m ON m.id = f.mapping
WHERE m.build_id != '';
