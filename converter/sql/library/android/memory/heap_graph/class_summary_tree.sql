-- SPDX-License-Identifier: Apache-2.0
--
-- The tree of classes with sums, as a flame graph shows it.

INCLUDE PERFETTO MODULE android.memory.heap_graph.class_tree;
INCLUDE PERFETTO MODULE graphs.scan;

CREATE PERFETTO INDEX _heap_graph_class_tree_id ON _heap_graph_class_tree(id);

-- Java heaps as a tree of classes, by the shortest path to each object.
CREATE PERFETTO TABLE android_heap_graph_class_summary_tree(
  -- Time of the dump (ns).
  graph_sample_ts TIMESTAMP,
  -- Process.
  upid JOINID(process.id),
  -- Node: a class, and the classes on the path to it.
  id LONG,
  -- Node above; NULL for a root.
  parent_id LONG,
  -- Name of the class.
  name STRING,
  -- The kind of a root: ROOT_JNI_GLOBAL, ROOT_THREAD_OBJECT, ...; NULL for others.
  root_type STRING,
  -- Objects of the class on this path.
  self_count LONG,
  -- Size of the self_count objects (bytes).
  self_size LONG,
  -- Objects of this node and all below.
  cumulative_count LONG,
  -- Size of the cumulative_count objects (bytes).
  cumulative_size LONG
) AS
SELECT t.graph_sample_ts, t.upid, t.id, t.parent_id, t.name, t.root_type, t.self_count, t.self_size,
  s.cumulative_count, s.cumulative_size
FROM _heap_graph_class_tree t
JOIN _graph_aggregating_scan!(
  (SELECT id AS source_node_id, parent_id AS dest_node_id FROM _heap_graph_class_tree
   WHERE parent_id IS NOT NULL),
  (SELECT id, self_count AS cumulative_count, self_size AS cumulative_size
   FROM _heap_graph_class_tree
   WHERE id NOT IN (SELECT parent_id FROM _heap_graph_class_tree WHERE parent_id IS NOT NULL)),
  (cumulative_count, cumulative_size),
  (SELECT node.id, node.self_count + below.count AS cumulative_count,
     node.self_size + below.size AS cumulative_size
   FROM (
     SELECT id, sum(cumulative_count) AS count, sum(cumulative_size) AS size FROM $table GROUP BY id
   ) AS below
   JOIN _heap_graph_class_tree AS node ON node.id = below.id)
) s ON s.id = t.id
ORDER BY t.id;
