-- SPDX-License-Identifier: Apache-2.0
--
-- Call stacks as a forest of functions: each call site of stack_profile_callsite is a node, and one
-- more for each function that the compiler put into another (inlining).

INCLUDE PERFETTO MODULE graphs.scan;
INCLUDE PERFETTO MODULE stack_trace.jit;
INCLUDE PERFETTO MODULE v8.jit;

-- Functions of each frame: frame_id, place (0: the innermost one), symbol_id and what the symbol
-- says. A frame without symbols is one function.
CREATE PERFETTO TABLE _callstack_function AS
SELECT f.id AS frame_id, s.id AS symbol_id, s.name, s.source_file, s.line_number, s.inlined,
  row_number() OVER (PARTITION BY f.id ORDER BY s.id) - 1 AS place
FROM stack_profile_frame f LEFT JOIN stack_profile_symbol s ON s.symbol_set_id = f.symbol_set_id
ORDER BY f.id, s.id;

CREATE PERFETTO INDEX _callstack_function_frame ON _callstack_function(frame_id, place);

-- Nodes of each call site: those from first_node, n of them, the innermost function first.
CREATE PERFETTO TABLE _callstack_site AS
SELECT c.id AS callsite_id, c.parent_id, c.frame_id, n.n,
  sum(n.n) OVER (ORDER BY c.id ROWS UNBOUNDED PRECEDING) - n.n AS first_node
FROM stack_profile_callsite c
JOIN (SELECT frame_id, count(*) AS n FROM _callstack_function GROUP BY frame_id) n
  ON n.frame_id = c.frame_id
ORDER BY c.id;

CREATE PERFETTO INDEX _callstack_site_id ON _callstack_site(callsite_id);

-- Names of functions, each made readable once: frame_id, place, name, and more of
-- _callstack_spc_forest.
CREATE PERFETTO TABLE _callstack_name AS
WITH
  named AS (
    SELECT u.frame_id, u.place, coalesce(u.name, f.deobfuscated_name, nullif(f.name, '')) AS name,
      f.mapping AS mapping_id, u.source_file, u.line_number, u.inlined
    FROM _callstack_function u JOIN stack_profile_frame f ON f.id = u.frame_id
  )
SELECT frame_id, place, coalesce(demangle(name), name, 'unknown') AS name, mapping_id, source_file,
  line_number, 0 AS column_number, inlined
FROM named;

CREATE PERFETTO INDEX _callstack_name_frame ON _callstack_name(frame_id, place);

-- The forest: id, parent_id (NULL for the outermost function), name, mapping_id, source_file,
-- line_number, column_number, inlined, callsite_id, and whether the node is the innermost function
-- of its call site.
CREATE PERFETTO TABLE _callstack_spc_forest AS
SELECT s.first_node + u.place AS id,
  iif(u.place + 1 < s.n, s.first_node + u.place + 1, p.first_node) AS parent_id,
  u.name, u.mapping_id, u.source_file, u.line_number, u.column_number, u.inlined, s.callsite_id,
  u.place = 0 AS is_leaf_function_in_callsite_frame
FROM _callstack_site s
JOIN _callstack_name u ON u.frame_id = s.frame_id
LEFT JOIN _callstack_site p ON p.callsite_id = s.parent_id
ORDER BY s.first_node + u.place;

CREATE PERFETTO INDEX _callstack_spc_forest_id ON _callstack_spc_forest(id);
CREATE PERFETTO INDEX _callstack_spc_forest_callsite ON _callstack_spc_forest(callsite_id);

-- Nodes of the stacks of samples, with all that called them.
CREATE PERFETTO MACRO _callstacks_for_stack_profile_samples(
  -- Samples: callsite_id.
  spc_samples TableOrSubquery
)
RETURNS TableOrSubquery AS (
  WITH RECURSIVE
    _node(id) AS (
      SELECT leaf.id
      FROM (SELECT DISTINCT callsite_id FROM $spc_samples) AS sample
      JOIN _callstack_spc_forest AS leaf ON leaf.callsite_id = sample.callsite_id
      WHERE leaf.is_leaf_function_in_callsite_frame
      UNION
      SELECT callee.parent_id
      FROM _node JOIN _callstack_spc_forest AS callee ON callee.id = _node.id
      WHERE callee.parent_id IS NOT NULL
    )
  SELECT f.id, f.parent_id, f.callsite_id, f.name, m.name AS mapping_name, f.source_file,
    f.line_number, f.inlined, f.is_leaf_function_in_callsite_frame
  FROM _node JOIN _callstack_spc_forest AS f ON f.id = _node.id
  JOIN stack_profile_mapping AS m ON m.id = f.mapping_id
);

-- The same with `self_count`, the samples that were taken in the node itself.
CREATE PERFETTO MACRO _callstacks_for_callsites(
  -- Samples: callsite_id.
  samples TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT id, parent_id, name, mapping_name, source_file, line_number, self_value AS self_count
  FROM _callstacks_for_callsites_weighted!((SELECT callsite_id, 1 AS value FROM $samples))
);

-- The same with `self_value`, the sum of the values of the samples that were taken in the node
-- itself.
CREATE PERFETTO MACRO _callstacks_for_callsites_weighted(
  -- Samples: callsite_id, value.
  samples TableOrSubquery
)
RETURNS TableOrSubquery AS (
  WITH
    _weight AS MATERIALIZED (
      SELECT callsite_id, sum(value) AS self_value FROM $samples GROUP BY callsite_id
    )
  SELECT c.id, c.parent_id, c.name, c.mapping_name, c.source_file, c.line_number,
    iif(c.is_leaf_function_in_callsite_frame, ifnull(_weight.self_value, 0), 0) AS self_value
  FROM _callstacks_for_stack_profile_samples!(_weight) AS c
  LEFT JOIN _weight ON _weight.callsite_id = c.callsite_id
);

-- Sums of nodes and all that they called: id, cumulative_count.
CREATE PERFETTO MACRO _callstacks_self_to_cumulative(
  -- Nodes: id, parent_id, self_count.
  callstacks TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT id, cumulative_count
  FROM _graph_aggregating_scan!(
    (SELECT id AS source_node_id, parent_id AS dest_node_id FROM $callstacks
     WHERE parent_id IS NOT NULL),
    (SELECT id, self_count AS cumulative_count FROM $callstacks
     WHERE id NOT IN (SELECT parent_id FROM $callstacks WHERE parent_id IS NOT NULL)),
    (cumulative_count),
    (SELECT node.id, node.self_count + called.n AS cumulative_count
     FROM (SELECT id, sum(cumulative_count) AS n FROM $table GROUP BY id) AS called
     JOIN $callstacks AS node ON node.id = called.id)
  )
);
