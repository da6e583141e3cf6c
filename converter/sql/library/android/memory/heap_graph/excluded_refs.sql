-- SPDX-License-Identifier: Apache-2.0
--
-- References that do not keep an object alive.

-- Referents of weak, phantom and finalizer references: id, see heap_graph_reference.
CREATE PERFETTO TABLE _excluded_refs AS
SELECT r.id
FROM heap_graph_reference r
WHERE r.field_name = 'java.lang.ref.Reference.referent' AND r.owner_id IN (
  SELECT o.id FROM heap_graph_object o WHERE o.type_id IN (
    SELECT c.id FROM heap_graph_class c
    WHERE c.kind IN ('KIND_WEAK_REFERENCE', 'KIND_PHANTOM_REFERENCE', 'KIND_FINALIZER_REFERENCE')))
ORDER BY r.id;

-- References that keep an object alive: source_node_id refers to dest_node_id. Both are ids of
-- heap_graph_object.
CREATE PERFETTO VIEW _heap_graph_edge AS
SELECT owner_id AS source_node_id, owned_id AS dest_node_id
FROM heap_graph_reference WHERE owned_id IS NOT NULL AND id NOT IN (SELECT id FROM _excluded_refs);
