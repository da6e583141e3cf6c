-- SPDX-License-Identifier: Apache-2.0
--
-- Objects and what is below them in the tree of shortest paths.

INCLUDE PERFETTO MODULE android.memory.heap_graph.class_tree;
INCLUDE PERFETTO MODULE graphs.scan;

-- Sums of each object and all below it: id, cumulative_size and cumulative_native_size (bytes),
-- cumulative_count.
CREATE PERFETTO TABLE _heap_graph_object_tree_aggregation AS
WITH
  below AS MATERIALIZED (
    SELECT CAST(id AS INTEGER) AS id, cumulative_size, cumulative_native_size, cumulative_count
    FROM _graph_aggregating_scan!(
      (SELECT id AS source_node_id, parent_id AS dest_node_id FROM _heap_graph_object_min_depth_tree
       WHERE parent_id IS NOT NULL),
      (SELECT o.id, o.self_size AS cumulative_size, o.native_size AS cumulative_native_size,
         1 AS cumulative_count
       FROM _heap_graph_object_min_depth_tree AS t JOIN heap_graph_object AS o ON o.id = t.id
       WHERE NOT EXISTS (SELECT 1 FROM _heap_graph_object_min_depth_tree AS b
                         WHERE b.parent_id = t.id)),
      (cumulative_size, cumulative_native_size, cumulative_count),
      (SELECT o.id, o.self_size + s.size AS cumulative_size,
         o.native_size + s.native_size AS cumulative_native_size, 1 + s.count AS cumulative_count
       FROM (
         SELECT id, sum(cumulative_size) AS size, sum(cumulative_native_size) AS native_size,
           sum(cumulative_count) AS count
         FROM $table GROUP BY id
       ) AS s
       JOIN heap_graph_object AS o ON o.id = s.id)
    )
  )
SELECT o.id, ifnull(b.cumulative_size, o.self_size) AS cumulative_size,
  ifnull(b.cumulative_native_size, o.native_size) AS cumulative_native_size,
  ifnull(b.cumulative_count, 1) AS cumulative_count
FROM heap_graph_object o LEFT JOIN below b ON b.id = o.id
ORDER BY o.id;

CREATE PERFETTO INDEX _heap_graph_object_tree_aggregation_id
ON _heap_graph_object_tree_aggregation(id);

-- Objects of some paths that refer to others: path_hash, class_name, outgoing_reference_count, sums
-- (bytes) of the objects below, and the columns of heap_graph_object.
CREATE PERFETTO MACRO _heap_graph_object_references_agg(
  -- Hashes of paths: id, path_hash.
  path_hashes TableOrSubquery,
  -- The paths that are asked for: path_hash.
  path_hash_values TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT h.path_hash, coalesce(c.deobfuscated_name, c.name) AS class_name,
    count(r.owned_id) AS outgoing_reference_count,
    a.cumulative_native_size + a.cumulative_size AS total_cumulative_size, a.cumulative_size,
    a.cumulative_native_size, a.cumulative_count, o.*
  FROM $path_hashes AS h
  JOIN heap_graph_object AS o ON o.id = h.id
  JOIN heap_graph_class AS c ON c.id = o.type_id
  JOIN _heap_graph_object_tree_aggregation AS a ON a.id = o.id
  JOIN heap_graph_reference AS r ON r.owner_id = o.id
  WHERE h.path_hash IN (SELECT path_hash FROM $path_hash_values)
  GROUP BY o.id
  ORDER BY total_cumulative_size DESC
);

-- References of objects of some paths, with the object at the other end: path_hash, class_name of
-- the other object, field_name, field_type_name, sums (bytes) of the objects below the object at
-- the end of the reference, and the other object's columns of heap_graph_object.
CREATE PERFETTO MACRO _heap_graph_references_of(
  path_hashes TableOrSubquery,
  path_hash_values TableOrSubquery,
  -- Columns of heap_graph_reference: of this object, and of the other one.
  own ColumnName,
  other ColumnName
)
RETURNS TableOrSubquery AS (
  SELECT h.path_hash, coalesce(c.deobfuscated_name, c.name) AS class_name,
    coalesce(r.deobfuscated_field_name, r.field_name) AS field_name, r.field_type_name,
    a.cumulative_native_size + a.cumulative_size AS total_cumulative_size, a.cumulative_size,
    a.cumulative_native_size, a.cumulative_count, o.*
  FROM $path_hashes AS h
  JOIN heap_graph_reference AS r ON r.$own = h.id
  JOIN heap_graph_object AS o ON o.id = r.$other
  JOIN heap_graph_class AS c ON c.id = o.type_id
  JOIN _heap_graph_object_tree_aggregation AS a ON a.id = r.owned_id
  WHERE h.path_hash IN (SELECT path_hash FROM $path_hash_values)
  ORDER BY total_cumulative_size DESC
);

-- References to objects of some paths, see _heap_graph_references_of.
CREATE PERFETTO MACRO _heap_graph_incoming_references_agg(
  path_hashes TableOrSubquery,
  path_hash_values TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT * FROM _heap_graph_references_of!($path_hashes, $path_hash_values, owned_id, owner_id)
);

-- References from objects of some paths, see _heap_graph_references_of.
CREATE PERFETTO MACRO _heap_graph_outgoing_references_agg(
  path_hashes TableOrSubquery,
  path_hash_values TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT * FROM _heap_graph_references_of!($path_hashes, $path_hash_values, owner_id, owned_id)
);
