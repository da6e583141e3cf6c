-- SPDX-License-Identifier: Apache-2.0
--
-- Time that slices spend outside of the slices inside them.

-- The time of the slices right inside a slice.
CREATE PERFETTO TABLE _slice_children_dur(
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
    -- Its own time (ns).
    self_dur DURATION
) AS
SELECT s.id, s.dur - ifnull(inside.child_dur_sum, 0) AS self_dur
FROM slice s LEFT JOIN _slice_children_dur inside ON inside.id = s.id
ORDER BY s.id;
