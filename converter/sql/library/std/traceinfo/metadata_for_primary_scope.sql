-- SPDX-License-Identifier: Apache-2.0
--
-- Facts about the trace, one for each name.

-- Each name of the table metadata once, with the value of the first trace and machine. A value that
-- belongs to no single trace counts only if there is no other value.
CREATE PERFETTO TABLE _metadata_for_primary_scope(
    -- Name of the fact.
    name STRING,
    -- Value of texts.
    str_value STRING,
    -- Value of numbers.
    int_value LONG,
    -- single, or multi for facts with several values.
    key_type STRING
) AS
SELECT name, str_value, int_value, key_type
FROM (
    SELECT name, str_value, int_value, key_type,
           row_number() OVER (
               PARTITION BY name
               ORDER BY trace_id NULLS LAST, machine_id NULLS LAST
           ) AS place
    FROM metadata
)
WHERE place = 1;
