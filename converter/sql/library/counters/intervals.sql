-- SPDX-License-Identifier: Apache-2.0
--
-- Values of counters as intervals.

-- The intervals in which a counter keeps its value. A value holds from its sample to the next one,
-- the last one to the end of the trace. If samples repeat a value, the first two and the last
-- one have a row, but only the first two at the end of the counter. Columns: id, ts (ns), track_id
-- and value of the sample; dur (ns); next_value: the value of the next row, NULL at the end;
-- delta_value: the value less that of the row before, NULL at first. O(n log n).
CREATE PERFETTO MACRO counter_leading_intervals(
    -- Samples of any number of counters: id, ts (ns), track_id, value.
    counter_table TableOrSubquery
)
RETURNS TableOrSubquery AS (
    SELECT c0 AS id, c1 AS ts, c2 AS dur, c3 AS track_id, c4 AS value, c5 AS next_value,
           c6 AS delta_value
    FROM __intrinsic_table_ptr((
        SELECT __intrinsic_counter_intervals(
            'leading', trace_end(),
            __intrinsic_counter_per_track_agg(sample.id, sample.ts, sample.track_id, sample.value))
        FROM (SELECT id, ts, track_id, value FROM $counter_table ORDER BY ts) AS sample
    ))
    WHERE __intrinsic_table_ptr_bind(c0, 'id')
      AND __intrinsic_table_ptr_bind(c1, 'ts')
      AND __intrinsic_table_ptr_bind(c2, 'dur')
      AND __intrinsic_table_ptr_bind(c3, 'track_id')
      AND __intrinsic_table_ptr_bind(c4, 'value')
      AND __intrinsic_table_ptr_bind(c5, 'next_value')
      AND __intrinsic_table_ptr_bind(c6, 'delta_value')
);
