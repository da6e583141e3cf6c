-- SPDX-License-Identifier: Apache-2.0
--
-- The heap as a tree of classes, by the dominators of each object.

INCLUDE PERFETTO MODULE android.memory.heap_graph.helpers;
INCLUDE PERFETTO MODULE android.memory.heap_graph.raw_dominator_tree;

CREATE PERFETTO TABLE _heap_graph_dominator_path_hashes AS
SELECT id, path_hash, parent_path_hash
FROM _heap_graph_type_path_hash!((SELECT id, idom_id AS parent_id
                                  FROM _raw_heap_graph_dominator_tree));

CREATE PERFETTO TABLE _heap_graph_dominator_path_hashes_aggregated AS
SELECT * FROM _heap_graph_path_hash_aggregate!(_heap_graph_dominator_path_hashes);

CREATE PERFETTO INDEX _heap_graph_dominator_path_hashes_aggregated_hash
  ON _heap_graph_dominator_path_hashes_aggregated(path_hash);

-- The tree of classes, see _heap_graph_path_hashes_to_class_tree.
CREATE PERFETTO TABLE _heap_graph_dominator_class_tree AS
SELECT * FROM _heap_graph_path_hashes_to_class_tree!(_heap_graph_dominator_path_hashes_aggregated);
