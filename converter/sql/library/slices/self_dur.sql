-- SPDX-License-Identifier: Apache-2.0
--
-- Time that slices spend outside of the slices inside them.

-- The time of the children of a slice.
CREATE PERFETTO VIEW _slice_children_dur(
    -- Slice around them.
    id JOINID(slice.id),
    -- Sum of their durations (ns).
    child_dur_sum DURATION
) AS
SELECT parent_id AS id, sum(dur) AS child_dur_sum
FROM slice WHERE parent_id IS NOT NULL GROUP BY parent_id;

-- The time of each slice without that of the slices inside it.
CREATE PERFETTO TABLE slice_self_dur(
    -- Slice.
    id ID(slice.id),
    -- Time of the slice alone (ns).
    self_dur DURATION
) AS
SELECT c0 AS id, c1 AS self_dur
FROM __intrinsic_table_ptr((
    SELECT __intrinsic_slice_self_agg(id, parent_id, dur)
    FROM (SELECT id, parent_id, dur FROM slice ORDER BY id)
))
WHERE __intrinsic_table_ptr_bind(c0, 'id') AND __intrinsic_table_ptr_bind(c1, 'self_dur');
