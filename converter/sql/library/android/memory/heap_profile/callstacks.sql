-- SPDX-License-Identifier: Apache-2.0
--
-- Call stacks of allocations.

INCLUDE PERFETTO MODULE callstacks.stack_profile;

-- Nodes of the stacks of allocations, and all callers of these nodes, with sums of the allocations
-- of each call site: self_size and self_alloc_size (bytes), self_count and self_alloc_count.
CREATE PERFETTO MACRO _android_heap_profile_callstacks_for_allocations(
  -- Allocations: callsite_id, size and alloc_size (bytes), count and alloc_count.
  allocations TableOrSubquery
)
RETURNS TableOrSubquery AS (
  WITH
    _site AS MATERIALIZED (
      SELECT callsite_id, sum(size) AS size, sum(count) AS count, sum(alloc_size) AS alloc_size,
        sum(alloc_count) AS alloc_count
      FROM $allocations GROUP BY callsite_id
    )
  SELECT c.id, c.parent_id, c.name, c.mapping_name, c.source_file, c.line_number,
    ifnull(_site.size, 0) AS self_size, ifnull(_site.count, 0) AS self_count,
    ifnull(_site.alloc_size, 0) AS self_alloc_size, ifnull(_site.alloc_count, 0) AS self_alloc_count
  FROM _callstacks_for_stack_profile_samples!(_site) AS c
  LEFT JOIN _site ON _site.callsite_id = c.callsite_id
);
