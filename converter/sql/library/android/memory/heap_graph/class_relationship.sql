-- SPDX-License-Identifier: Apache-2.0
--
-- Classes and what descends from them.

-- Classes that descend from some classes, and these classes themselves: id, ancestor_class_id,
-- ancestor_class_name.
CREATE PERFETTO MACRO android_heap_graph_class_find_descendants(
  -- The classes that are asked for: id, see heap_graph_class.
  ancestor_class_ids TableOrSubquery
)
RETURNS TableOrSubquery AS (
  WITH RECURSIVE
    _descendant(id, ancestor_class_id, ancestor_class_name) AS (
      SELECT c.id, c.id, c.name
      FROM $ancestor_class_ids AS asked JOIN heap_graph_class AS c ON c.id = asked.id
      UNION
      SELECT c.id, d.ancestor_class_id, d.ancestor_class_name
      FROM _descendant AS d JOIN heap_graph_class AS c ON c.superclass_id = d.id
    )
  SELECT id, ancestor_class_id, ancestor_class_name FROM _descendant
);
