-- SPDX-License-Identifier: Apache-2.0
--
-- Facts about each of several traces.

-- The traces of the database, a row for each.
CREATE PERFETTO TABLE _metadata_by_trace(
    -- Trace.
    trace_id LONG,
    -- Name of the session in its config.
    unique_session_name STRING,
    -- Identifier of the trace.
    trace_uuid STRING,
    -- Format of the file.
    trace_type STRING,
    -- Size of the file (bytes).
    trace_size_bytes LONG,
    -- Trigger that ended the recording.
    trace_trigger STRING,
    -- Names of the machines that were recorded, with commas between.
    machines STRING
) AS
SELECT t.trace_id,
       extract_metadata_for_trace(t.trace_id, 'unique_session_name') AS unique_session_name,
       extract_metadata_for_trace(t.trace_id, 'trace_uuid') AS trace_uuid,
       extract_metadata_for_trace(t.trace_id, 'trace_type') AS trace_type,
       extract_metadata_for_trace(t.trace_id, 'trace_size_bytes') AS trace_size_bytes,
       extract_metadata_for_trace(t.trace_id, 'trace_trigger') AS trace_trigger,
       ifnull(group_concat(t.machine, ', '), '') AS machines
FROM (
    SELECT DISTINCT trace_id,
           iif(machine_id IS NULL, NULL,
               ifnull(extract_metadata_for_machine(machine_id, 'system_name'),
                      'Machine ' || machine_id)) AS machine, machine_id
    FROM metadata
    WHERE trace_id IS NOT NULL
) AS t
GROUP BY t.trace_id;
