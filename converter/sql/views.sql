-- SPDX-License-Identifier: Apache-2.0
--
-- Perfetto's public views over the stored tables. Each selects from one table, so that SQLite folds it
-- into the query that uses it. The comment right above a view is what `mmsql tables` says of it; a line
-- of it that is indented explains a column that the view's table does not have.

-- All tracks: what slices and counters are about.
CREATE VIEW track AS
SELECT id, name, type, dimension_arg_set_id, parent_id, source_arg_set_id, machine_id, track_group_id
FROM _track;

-- Tracks of counters: what is counted.
CREATE VIEW counter_track AS
SELECT id, name, parent_id, type, dimension_arg_set_id, source_arg_set_id, machine_id, unit, description
FROM _track WHERE is_counter;

-- Counters of one processor.
CREATE VIEW cpu_counter_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, unit, description, cpu
FROM _track WHERE is_counter AND cpu IS NOT NULL;

-- Counters of one process.
CREATE VIEW process_counter_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, unit, description, upid
FROM _track WHERE is_counter AND upid IS NOT NULL;

-- Counters of one thread.
CREATE VIEW thread_counter_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, unit, description, utid
FROM _track WHERE is_counter AND utid IS NOT NULL;

-- Tracks of slices of one processor.
CREATE VIEW cpu_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, cpu
FROM _track WHERE NOT is_counter AND cpu IS NOT NULL;

-- Tracks of slices of one process.
CREATE VIEW process_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, upid
FROM _track WHERE NOT is_counter AND upid IS NOT NULL;

-- Tracks of slices of one thread.
CREATE VIEW thread_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, utid
FROM _track WHERE NOT is_counter AND utid IS NOT NULL;

-- Slices that are a moment: their duration is 0.
CREATE VIEW instant AS
SELECT ts, track_id, name, arg_set_id FROM slice WHERE dur = 0;

-- The older name of ftrace_event.
CREATE VIEW raw AS
SELECT id, ts, name, cpu, utid, arg_set_id, common_flags, ucpu FROM ftrace_event;

-- sched_slice with the end of each slice.
--   ts_end: When it ended (ns).
CREATE VIEW sched AS
SELECT id, ts, dur, cpu, utid, end_state, priority, ucpu, ts + dur AS ts_end FROM sched_slice;
