-- SPDX-License-Identifier: Apache-2.0
--
-- Call stacks as a forest of functions: one node for each call site of stack_profile_callsite, and
-- one node for each function that the compiler put into another (inlining).
--
-- Large traces have very many call sites, and names are long. The tables of sites and nodes
-- therefore have numbers only, and rows are found by their rowid: node 0 is row 1.

INCLUDE PERFETTO MODULE graphs.scan;
INCLUDE PERFETTO MODULE stack_trace.jit;
INCLUDE PERFETTO MODULE v8.jit;

-- Names of frames in code that V8 made: frame_id, name, line, col. A frame whose address had
-- several pieces of code in turn has no row.
CREATE PERFETTO TABLE _callstack_jit_name AS
SELECT j.frame_id,
  coalesce(
    'JS: ' || iif(f.name = '', '(anonymous)', f.name) || ':' || f.line || ':' || f.col || ' ['
      || lower(js.tier) || ']',
    'WASM: ' || w.function_name || ' [' || lower(w.tier) || ']',
    'REGEXP: ' || r.pattern,
    'V8: ' || i.function_name,
    'JIT: ' || c.function_name) AS name,
  f.line, f.col
FROM (
  SELECT frame_id, min(jit_code_id) AS jit_code_id FROM _jit_frame
  GROUP BY frame_id HAVING count(*) = 1
) j
JOIN _jit_code c ON c.jit_code_id = j.jit_code_id
LEFT JOIN _v8_js_code js ON js.jit_code_id = j.jit_code_id
LEFT JOIN v8_js_function f ON f.v8_js_function_id = js.v8_js_function_id
LEFT JOIN _v8_wasm_code w ON w.jit_code_id = j.jit_code_id
LEFT JOIN _v8_regexp_code r ON r.jit_code_id = j.jit_code_id
LEFT JOIN _v8_internal_code i ON i.jit_code_id = j.jit_code_id;

-- Functions of each frame: frame_id, place (0: the innermost function), name, and other columns of
-- _callstack_spc_forest. A frame without symbols is one function.
CREATE PERFETTO TABLE _callstack_function AS
WITH
  symbol AS (
    SELECT f.id AS frame_id, s.id AS symbol_id, f.mapping AS mapping_id,
      coalesce(s.name, f.deobfuscated_name, nullif(f.name, '')) AS name, s.source_file,
      s.line_number, s.inlined, row_number() OVER (PARTITION BY f.id ORDER BY s.id) - 1 AS place
    FROM stack_profile_frame f
    LEFT JOIN stack_profile_symbol s ON s.symbol_set_id = f.symbol_set_id
  )
SELECT s.frame_id, s.place, coalesce(j.name, demangle(s.name), s.name, 'unknown') AS name,
  s.mapping_id, m.name AS mapping_name, s.source_file,
  coalesce(j.line, s.line_number) AS line_number,
  coalesce(j.col, 0) AS column_number, s.inlined
FROM symbol s
LEFT JOIN _callstack_jit_name j ON j.frame_id = s.frame_id
LEFT JOIN stack_profile_mapping m ON m.id = s.mapping_id
ORDER BY s.frame_id, s.place;

-- Frames: frame_id, the row of the innermost function, and the number of functions.
CREATE PERFETTO TABLE _callstack_frame AS
SELECT frame_id, min(rowid) AS function, count(*) AS n FROM _callstack_function GROUP BY frame_id;

CREATE PERFETTO INDEX _callstack_frame_id ON _callstack_frame(frame_id);

-- Nodes of each call site: n nodes from first_node on, the innermost function first.
CREATE PERFETTO TABLE _callstack_site AS
SELECT c.id AS callsite_id, c.parent_id, f.function, f.n,
  sum(f.n) OVER (ORDER BY c.id ROWS UNBOUNDED PRECEDING) - f.n AS first_node
FROM stack_profile_callsite c CROSS JOIN _callstack_frame f ON f.frame_id = c.frame_id
ORDER BY c.id;

CREATE PERFETTO INDEX _callstack_site_id ON _callstack_site(callsite_id);

-- Nodes, in the order of their ids: parent_id (NULL for the outermost function), the row of the
-- function, and callsite_id.
CREATE PERFETTO TABLE _callstack_node AS
SELECT
  iif(u.rowid + 1 < s.function + s.n, s.first_node + u.rowid - s.function + 1, p.first_node)
    AS parent_id,
  u.rowid AS function, s.callsite_id
FROM _callstack_site s
CROSS JOIN _callstack_function u ON u.rowid BETWEEN s.function AND s.function + s.n - 1
LEFT JOIN _callstack_site p ON p.callsite_id = s.parent_id;

-- The forest: id, parent_id (NULL for the outermost function), name, mapping_id, source_file,
-- line_number, column_number, inlined, callsite_id, and whether the node is the innermost function
-- of its call site.
CREATE PERFETTO VIEW _callstack_spc_forest AS
SELECT n.rowid - 1 AS id, n.parent_id, u.name, u.mapping_id, u.source_file, u.line_number,
  u.column_number, u.inlined, n.callsite_id, u.place = 0 AS is_leaf_function_in_callsite_frame
FROM _callstack_node n CROSS JOIN _callstack_function u ON u.rowid = n.function;

-- Nodes of the stacks of samples, and all callers of these nodes, in the order of their ids.
-- `self_value` is the sum of the values of the samples that were taken in the node itself.
-- `total_value` also has the samples that were taken in its callees.
CREATE PERFETTO MACRO _callstacks_with_sums(
  -- Samples: callsite_id, value.
  samples TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT r.c0 AS id, n.parent_id, n.callsite_id, u.name, u.mapping_name, u.source_file,
    u.line_number, u.inlined, u.place = 0 AS is_leaf_function_in_callsite_frame,
    r.c1 AS self_value, r.c2 AS total_value
  FROM __intrinsic_table_ptr((
    SELECT __intrinsic_forest_sums(x.id, x.parent_id, x.value)
    FROM (
      SELECT rowid - 1 AS id, parent_id, NULL AS value FROM _callstack_node
      UNION ALL
      SELECT leaf.first_node, NULL, ifnull(s.value, 0)
      FROM $samples AS s CROSS JOIN _callstack_site AS leaf ON leaf.callsite_id = s.callsite_id
    ) AS x
  )) AS r
  CROSS JOIN _callstack_node AS n ON n.rowid = r.c0 + 1
  CROSS JOIN _callstack_function AS u ON u.rowid = n.function
  WHERE __intrinsic_table_ptr_bind(r.c0, 'id') AND __intrinsic_table_ptr_bind(r.c1, 'self')
    AND __intrinsic_table_ptr_bind(r.c2, 'total')
);

-- Nodes of the stacks of samples, and all callers of these nodes.
CREATE PERFETTO MACRO _callstacks_for_stack_profile_samples(
  -- Samples: callsite_id.
  spc_samples TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT id, parent_id, callsite_id, name, mapping_name, source_file, line_number, inlined,
    is_leaf_function_in_callsite_frame
  FROM _callstacks_with_sums!((SELECT callsite_id, 1 AS value FROM $spc_samples))
);

-- Nodes of the stacks of samples, with `self_count`, the samples that were taken in the node
-- itself.
CREATE PERFETTO MACRO _callstacks_for_callsites(
  -- Samples: callsite_id.
  samples TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT id, parent_id, name, mapping_name, source_file, line_number, self_value AS self_count
  FROM _callstacks_with_sums!((SELECT callsite_id, 1 AS value FROM $samples))
);

-- Nodes of the stacks of samples, with `self_value`, the sum of the values of the samples that were
-- taken in the node itself.
CREATE PERFETTO MACRO _callstacks_for_callsites_weighted(
  -- Samples: callsite_id, value.
  samples TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT id, parent_id, name, mapping_name, source_file, line_number,
    iif(self_value = 0, 0, self_value) AS self_value
  FROM _callstacks_with_sums!((SELECT callsite_id, value FROM $samples))
);

-- Samples as one tree, in the order of the ids: nodes with `self_count`, the samples that were
-- taken in the node itself, and `cumulative_count`, the samples in the node and in its callees.
CREATE PERFETTO MACRO _callstacks_summary(
  -- Samples: callsite_id.
  samples TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT id, parent_id, name, mapping_name, source_file, line_number, self_value AS self_count,
    total_value AS cumulative_count
  FROM _callstacks_with_sums!((SELECT callsite_id, 1 AS value FROM $samples))
);

-- Sums over each node and all its callees: id, cumulative_count.
CREATE PERFETTO MACRO _callstacks_self_to_cumulative(
  -- Nodes: id, parent_id, self_count.
  callstacks TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT r.c0 AS id, r.c1 AS cumulative_count
  FROM __intrinsic_table_ptr((
    SELECT __intrinsic_forest_sums(x.id, x.parent_id, ifnull(x.self_count, 0)) FROM $callstacks AS x
  )) AS r
  WHERE __intrinsic_table_ptr_bind(r.c0, 'id') AND __intrinsic_table_ptr_bind(r.c1, 'total')
);
