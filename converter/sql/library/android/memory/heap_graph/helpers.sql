-- SPDX-License-Identifier: Apache-2.0
--
-- From trees of objects to trees of classes: objects whose paths from the root have the same names
-- of classes become one node. A run of objects of one class is one step of the path.

INCLUDE PERFETTO MODULE graphs.scan;

-- Hash of the name of each class: id, name_hash. A class that two loaders loaded has one name.
CREATE PERFETTO TABLE _heap_graph_class_name_hash AS
SELECT id, hash(coalesce(deobfuscated_name, name, '')) AS name_hash
FROM heap_graph_class ORDER BY id;

CREATE PERFETTO INDEX _heap_graph_class_name_hash_id ON _heap_graph_class_name_hash(id);

-- Objects with the parts of a path's hash: id, upid, graph_sample_ts, name_hash, root_type,
-- heap_type.
CREATE PERFETTO VIEW _heap_graph_hashed_object AS
SELECT o.id, o.upid, o.graph_sample_ts, c.name_hash, ifnull(o.root_type, '') AS root_type,
  ifnull(o.heap_type, '') AS heap_type
FROM heap_graph_object o JOIN _heap_graph_class_name_hash c ON c.id = o.type_id;

-- Hashes of the paths to objects: id, path_hash, parent_path_hash (0 for a root).
CREATE PERFETTO MACRO _heap_graph_type_path_hash(
  -- Tree of objects: id, parent_id (NULL for a root).
  tab TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT id, path_hash, parent_path_hash
  FROM _graph_scan!(
    (SELECT parent_id AS source_node_id, id AS dest_node_id FROM $tab WHERE parent_id IS NOT NULL),
    (SELECT o.id, o.name_hash AS parent_name_hash,
       hash(o.upid, o.graph_sample_ts, o.name_hash, o.root_type, o.heap_type) AS path_hash,
       0 AS parent_path_hash
     FROM $tab AS t JOIN _heap_graph_hashed_object AS o ON o.id = t.id
     WHERE t.parent_id IS NULL),
    (parent_name_hash, path_hash, parent_path_hash),
    (SELECT id, name_hash AS parent_name_hash,
       iif(is_same, path_hash, hash(path_hash, name_hash, heap_type)) AS path_hash,
       iif(is_same, parent_path_hash, path_hash) AS parent_path_hash
     FROM (
       SELECT o.id, o.name_hash, o.heap_type, t.path_hash, t.parent_path_hash,
         o.name_hash = t.parent_name_hash AS is_same
       FROM $table AS t JOIN _heap_graph_hashed_object AS o ON o.id = t.id
     ))
  )
  ORDER BY id
);

-- Sums of the objects of each path, and of their native memory in a separate node below. The
-- columns are the columns of _heap_graph_path_hashes_to_class_tree, with path_hash and
-- parent_path_hash instead of ids.
CREATE PERFETTO MACRO _heap_graph_path_hash_aggregate(
  -- Hashes of paths: id, path_hash, parent_path_hash.
  tab TableOrSubquery
)
RETURNS TableOrSubquery AS (
  WITH
    _path AS MATERIALIZED (
      SELECT o.graph_sample_ts, o.upid, h.path_hash, h.parent_path_hash,
        coalesce(c.deobfuscated_name, c.name) AS name, o.root_type, o.heap_type,
        count(*) AS self_count,
        sum(o.self_size) AS self_size, sum(o.native_size > 0) AS native_count,
        sum(o.native_size) AS native_size
      FROM $tab AS h
      JOIN heap_graph_object AS o ON o.id = h.id
      JOIN heap_graph_class AS c ON c.id = o.type_id
      GROUP BY h.path_hash
    )
  SELECT graph_sample_ts, upid, path_hash, parent_path_hash, name, root_type, heap_type, self_count,
    self_size
  FROM _path
  UNION ALL
  SELECT graph_sample_ts, upid, hash(path_hash, 'native', ''), path_hash, '[native] ' || name,
    root_type, 'HEAP_TYPE_NATIVE', native_count, native_size
  FROM _path WHERE native_size > 0
  ORDER BY path_hash
);

-- The tree of classes: graph_sample_ts (ns), upid, id, parent_id (NULL for a root), name,
-- root_type, heap_type, self_count, self_size (bytes), path_hash_stable (the same for the same path
-- in any trace).
CREATE PERFETTO MACRO _heap_graph_path_hashes_to_class_tree(
  -- A table with the columns of _heap_graph_path_hash_aggregate, sorted by path_hash.
  tab TableOrSubquery
)
RETURNS TableOrSubquery AS (
  SELECT c.graph_sample_ts, c.upid, c.rowid - 1 AS id, p.rowid - 1 AS parent_id,
         c.name, c.root_type,
    c.heap_type, c.self_count, c.self_size, c.path_hash AS path_hash_stable
  FROM $tab AS c LEFT JOIN $tab AS p ON p.path_hash = c.parent_path_hash
  ORDER BY c.rowid
);
