-- SPDX-License-Identifier: Apache-2.0
--
-- Allocations of all processes as one tree of functions.

INCLUDE PERFETTO MODULE android.memory.heap_profile.callstacks;
INCLUDE PERFETTO MODULE graphs.scan;

CREATE PERFETTO TABLE _heap_profile_node AS
SELECT id, parent_id, name, mapping_name, source_file, line_number, self_size, self_alloc_size
FROM _android_heap_profile_callstacks_for_allocations!((
  SELECT callsite_id, size, count, max(size, 0) AS alloc_size, max(count, 0) AS alloc_count
  FROM heap_profile_allocation
));

CREATE PERFETTO INDEX _heap_profile_node_id ON _heap_profile_node(id);

-- Allocations of native heaps by call stack, from the outermost function down. Processes are not
-- told apart.
CREATE PERFETTO TABLE android_heap_profile_summary_tree(
  -- Node: a function with its chain of callers.
  id LONG,
  -- Node that called this one.
  parent_id LONG,
  -- Name of the function.
  name STRING,
  -- File that has the function's code.
  mapping_name STRING,
  -- Source file of the function.
  source_file STRING,
  -- Line in the source file.
  line_number LONG,
  -- Memory that the function itself allocated and that was not freed (bytes).
  self_size LONG,
  -- Memory that the function and its callees allocated and that was not freed (bytes).
  cumulative_size LONG,
  -- Memory that the function itself allocated, freed or not (bytes).
  self_alloc_size LONG,
  -- Memory that the function and its callees allocated, freed or not (bytes).
  cumulative_alloc_size LONG
) AS
SELECT n.id, n.parent_id, n.name, n.mapping_name, n.source_file, n.line_number, n.self_size,
  s.cumulative_size, n.self_alloc_size, s.cumulative_alloc_size
FROM _heap_profile_node n
JOIN _graph_aggregating_scan!(
  (SELECT id AS source_node_id, parent_id AS dest_node_id FROM _heap_profile_node
   WHERE parent_id IS NOT NULL),
  (SELECT id, self_size AS cumulative_size, self_alloc_size AS cumulative_alloc_size
   FROM _heap_profile_node
   WHERE id NOT IN (SELECT parent_id FROM _heap_profile_node WHERE parent_id IS NOT NULL)),
  (cumulative_size, cumulative_alloc_size),
  (SELECT n.id, n.self_size + called.size AS cumulative_size,
     n.self_alloc_size + called.alloc_size AS cumulative_alloc_size
   FROM (
     SELECT id, sum(cumulative_size) AS size, sum(cumulative_alloc_size) AS alloc_size
     FROM $table GROUP BY id
   ) AS called
   JOIN _heap_profile_node AS n ON n.id = called.id)
) s ON s.id = n.id;
