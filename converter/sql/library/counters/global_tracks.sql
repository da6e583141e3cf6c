-- SPDX-License-Identifier: Apache-2.0
--
-- Counters of the whole machine.

-- 1 if only its name distinguishes the counter's track from other tracks. Such a counter belongs to
-- no process, thread, processor or other part of the machine.
CREATE PERFETTO FUNCTION _counter_track_is_only_name_dimension(
    -- Track of a counter.
    track_id LONG
)
RETURNS BOOL AS
SELECT NOT EXISTS (
    SELECT 1 FROM args
    WHERE key != 'name'
      AND arg_set_id = (SELECT dimension_arg_set_id FROM counter_track WHERE id = $track_id)
);
