-- SPDX-License-Identifier: Apache-2.0
--
-- The heap as a tree of classes, by the shortest path to each object.

INCLUDE PERFETTO MODULE android.memory.heap_graph.excluded_refs;
INCLUDE PERFETTO MODULE android.memory.heap_graph.helpers;
INCLUDE PERFETTO MODULE graphs.search;

-- The tree of objects: id, parent_id (NULL for a root). If there are several shortest paths, the
-- path from the root whose class comes first counts.
CREATE PERFETTO TABLE _heap_graph_object_min_depth_tree AS
SELECT CAST(node_id AS INTEGER) AS id, CAST(parent_node_id AS INTEGER) AS parent_id
FROM graph_reachable_bfs!(
  (SELECT source_node_id, dest_node_id FROM _heap_graph_edge ORDER BY dest_node_id),
  (SELECT o.id AS node_id
   FROM heap_graph_object AS o JOIN heap_graph_class AS c ON c.id = o.type_id
   WHERE o.root_type IS NOT NULL ORDER BY c.name, o.id)
)
ORDER BY node_id;

CREATE PERFETTO INDEX _heap_graph_object_min_depth_tree_id ON _heap_graph_object_min_depth_tree(id);
CREATE PERFETTO INDEX _heap_graph_object_min_depth_tree_up
ON _heap_graph_object_min_depth_tree(parent_id);

CREATE PERFETTO TABLE _heap_graph_path_hashes AS
SELECT id, path_hash, parent_path_hash
FROM _heap_graph_type_path_hash!(_heap_graph_object_min_depth_tree);

CREATE PERFETTO TABLE _heap_graph_path_hashes_aggregated AS
SELECT * FROM _heap_graph_path_hash_aggregate!(_heap_graph_path_hashes);

CREATE PERFETTO INDEX _heap_graph_path_hashes_aggregated_hash
ON _heap_graph_path_hashes_aggregated(path_hash);

-- The tree of classes, see _heap_graph_path_hashes_to_class_tree.
CREATE PERFETTO TABLE _heap_graph_class_tree AS
SELECT * FROM _heap_graph_path_hashes_to_class_tree!(_heap_graph_path_hashes_aggregated);

-- Objects by class and kind: class_name, heap_type, root_type, reachable, total_size and
-- total_native_size (bytes), count.
CREATE PERFETTO MACRO _heap_graph_object_sums(
  -- Objects: id.
  objects TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT coalesce(c.deobfuscated_name, c.name) AS class_name, o.heap_type, o.root_type, o.reachable,
    sum(o.self_size) AS total_size, sum(o.native_size) AS total_native_size, count(*) AS count
  FROM $objects AS asked
  JOIN heap_graph_object AS o ON o.id = asked.id
  JOIN heap_graph_class AS c ON c.id = o.type_id
  GROUP BY class_name, o.heap_type, o.root_type, o.reachable
  ORDER BY count DESC
);

-- The objects that objects of some paths keep, themselves included: all below them in the tree, see
-- _heap_graph_object_sums.
CREATE PERFETTO MACRO _heap_graph_retained_object_count_agg(
  -- Hashes of paths: id, path_hash.
  path_hashes TableOrSubquery,
  -- The paths that are asked for: path_hash.
  path_hash_values TableOrSubquery
)
RETURNS TableOrSubquery AS (
  WITH RECURSIVE
    _kept(id) AS (
      SELECT id FROM $path_hashes WHERE path_hash IN (SELECT path_hash FROM $path_hash_values)
      UNION
      SELECT t.id FROM _kept JOIN _heap_graph_object_min_depth_tree AS t ON t.parent_id = _kept.id
    )
  SELECT * FROM _heap_graph_object_sums!(_kept)
);

-- The objects that keep objects of some paths, themselves included: all above them in the tree, see
-- _heap_graph_object_sums.
CREATE PERFETTO MACRO _heap_graph_retaining_object_count_agg(
  -- Hashes of paths: id, path_hash.
  path_hashes TableOrSubquery,
  -- The paths that are asked for: path_hash.
  path_hash_values TableOrSubquery
)
RETURNS TableOrSubquery AS (
  WITH RECURSIVE
    _keeper(id) AS (
      SELECT id FROM $path_hashes WHERE path_hash IN (SELECT path_hash FROM $path_hash_values)
      UNION
      SELECT t.parent_id FROM _keeper
      JOIN _heap_graph_object_min_depth_tree AS t ON t.id = _keeper.id
      WHERE t.parent_id IS NOT NULL
    )
  SELECT * FROM _heap_graph_object_sums!(_keeper)
);

-- Classes, with the number of paths of their objects: path_count, object_count, total_size and
-- total_native_size (bytes), class_name.
CREATE PERFETTO MACRO _heap_graph_duplicate_objects_agg(
  -- Hashes of paths: id, path_hash.
  path_hashes TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT count(DISTINCT h.path_hash) AS path_count, count(*) AS object_count,
    sum(o.self_size) AS total_size, sum(o.native_size) AS total_native_size,
    coalesce(c.deobfuscated_name, c.name) AS class_name
  FROM $path_hashes AS h
  JOIN heap_graph_object AS o ON o.id = h.id
  JOIN heap_graph_class AS c ON c.id = o.type_id
  GROUP BY class_name
  ORDER BY path_count DESC
);
