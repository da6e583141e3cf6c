-- SPDX-License-Identifier: Apache-2.0
--
-- Perfetto's public views over the stored tables. Each view selects from one table, so that SQLite
-- folds the view into the query that uses it. `mmsql tables` shows the comment directly above a
-- view. An indented line of the comment describes a column that the view's table lacks.

-- All tracks: what slices and counters are about.
CREATE VIEW track AS
SELECT id, name, type, dimension_arg_set_id, parent_id, source_arg_set_id, machine_id,
       track_group_id
FROM _track;

-- Tracks of counters: what is counted.
CREATE VIEW counter_track AS
SELECT id, name, parent_id, type, dimension_arg_set_id, source_arg_set_id, machine_id,
       unit, description
FROM _track WHERE is_counter;

-- Samples of counters with the names of their tracks, by time.
--   id: Row, see counter.
--   ts: Time of the reading (ns).
--   track_id: Track, see counter_track.
--   value: Value, in the track's unit.
--   arg_set_id: Details, see args.
--   name: Name of the track.
--   unit: Unit of the values.
CREATE VIEW counters AS
SELECT c.id, c.ts, c.track_id, c.value, c.arg_set_id, t.name, t.unit
FROM counter c JOIN _track t ON t.id = c.track_id ORDER BY c.ts;

-- Counters that the kernel's perf events read.
--   perf_session_id: Session, see perf_session.
--   cpu: Processor; NULL: all of them.
--   is_timebase: 1: this counter triggers the samples.
CREATE VIEW perf_counter_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, unit, description,
       CAST((SELECT int_value FROM args
             WHERE arg_set_id = t.dimension_arg_set_id
               AND key = 'perf_session_id') AS INTEGER) AS perf_session_id,
       cpu,
       CAST((SELECT int_value FROM args
             WHERE arg_set_id = t.source_arg_set_id
               AND key = 'is_timebase') AS INTEGER) AS is_timebase
FROM _track t WHERE is_counter AND type IN ('perf_cpu_counter', 'perf_global_counter');

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

-- Tracks of states: things that have one state at a time.
CREATE VIEW state_track AS
SELECT id, name, parent_id, type, dimension_arg_set_id, source_arg_set_id, machine_id
FROM _track WHERE is_counter IS NULL;

-- Tracks of states of one process.
CREATE VIEW process_state_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, upid
FROM _track WHERE is_counter IS NULL AND upid IS NOT NULL;

-- Tracks of states of one thread.
CREATE VIEW thread_state_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, utid
FROM _track WHERE is_counter IS NULL AND utid IS NOT NULL;

-- The older name of slice.
CREATE VIEW slices AS
SELECT id, ts, dur, track_id, category, name, depth, parent_id, arg_set_id, thread_ts, thread_dur,
       thread_instruction_count, thread_instruction_delta, cat, slice_id
FROM slice;

-- Slices that are a moment: their duration is 0.
CREATE VIEW instant AS
SELECT ts, track_id, name, arg_set_id FROM slice WHERE dur = 0;

-- Memory mappings of processes (/proc/PID/smaps), summed up by path.
--   path: Path, or [heap], [stack] and the like.
--   shared_clean_kb: Shared and unchanged (KiB).
--   shared_dirty_kb: Shared and changed (KiB).
--   private_clean_kb: Private and unchanged (KiB).
--   pss_kb: Proportional share of the resident memory (KiB).
CREATE VIEW process_memory_mappings AS
SELECT id, upid, ts, path_trimmed AS path, aggregate_count, is_deleted, size_kb,
       rss_kb, anonymous_kb,
       swap_kb, shared_clean_resident_kb AS shared_clean_kb,
       shared_dirty_resident_kb AS shared_dirty_kb, private_clean_resident_kb AS private_clean_kb,
       private_dirty_kb, locked_kb, proportional_resident_kb AS pss_kb, pss_dirty_kb, swap_pss_kb
FROM profiler_smaps;

-- Metrics of trace_processor. None is built in.
--   name: Name.
CREATE VIEW trace_metrics AS
SELECT CAST('' AS TEXT) AS name WHERE 0;

-- Frequencies that processors can run at.
--   cpu: The same as ucpu.
CREATE VIEW cpu_available_frequencies AS
SELECT id, ucpu AS cpu, freq, ucpu FROM _cpu_freq;

-- Every kernel event as it was recorded; its fields are in args, and in the views ftrace_NAME.
--   id: Row, in order of time.
--   ts: Time (ns).
--   name: Name of the event.
--   cpu: Processor of the event.
--   utid: Thread of the event.
--   arg_set_id: Fields of the event, see args.
--   common_flags: The kernel's flags of the event, if recorded.
--   ucpu: Processor, see cpu.id.
CREATE VIEW ftrace_event AS
SELECT e.id, e.ts, k.name, CAST(e.ucpu & 4095 AS INTEGER) AS cpu, e.utid, e.id AS arg_set_id,
  e.common_flags, e.ucpu
FROM _arg_set e LEFT JOIN _arg_kind k ON k.id = e.kind_id WHERE e.ts IS NOT NULL;

-- The older name of ftrace_event.
--   id: Row, in order of time.
--   ts: Time (ns).
--   name: Name of the event.
--   cpu: Processor of the event.
--   utid: Thread of the event.
--   arg_set_id: Fields of the event, see args.
--   common_flags: The kernel's flags of the event, if recorded.
--   ucpu: Processor, see cpu.id.
CREATE VIEW raw AS
SELECT id, ts, name, CAST(cpu AS INTEGER) AS cpu, utid, arg_set_id, common_flags, ucpu
FROM ftrace_event;

-- sched_slice with the end of each slice.
--   cpu: Processor.
--   ts_end: End (ns).
CREATE VIEW sched AS
SELECT id, ts, dur, CAST(cpu AS INTEGER) AS cpu, utid, end_state, priority, ucpu,
  CAST(ts + dur AS INTEGER) AS ts_end
FROM sched_slice;

-- Samples of call stacks taken by the kernel's perf events.
--   cpu_mode: user, kernel, hypervisor, ... or unknown.
--   perf_session_id: Session, see perf_session.
CREATE VIEW perf_sample AS
SELECT id, ts, utid, cpu, CAST(coalesce(cpu_mode, 'unknown') AS TEXT) AS cpu_mode, callsite_id,
       unwind_error, session_id AS perf_session_id
FROM _profiler_sample WHERE source = 'linux.perf';

-- Sessions that perf samples belong to.
--   perf_session_id: The same as id.
CREATE VIEW perf_session AS
SELECT id, id AS perf_session_id, cmdline FROM _profiler_session WHERE source = 'linux.perf';

-- Samples that Chrome's profiler streams, of simpleperf, and of the text of perf.
--   process_priority: Priority of the process; 0: usual, or not known.
CREATE VIEW cpu_profile_stack_sample AS
SELECT id, ts, callsite_id, utid,
       CAST(coalesce(process_priority, 0) AS INTEGER) AS process_priority
FROM _profiler_sample WHERE source IN ('chrome', 'simpleperf', 'perf_text');

-- Samples of any source that have a call chain.
CREATE VIEW stack_sample AS
SELECT id, ts, source, task_context_id, execution_context_id, callsite_id, session_id
FROM _profiler_sample WHERE callsite_id IS NOT NULL;

-- Sessions of profilers.
CREATE VIEW stack_sample_session AS
SELECT id, source, timebase_unit, cmdline FROM _profiler_session
WHERE id IN (SELECT session_id FROM _profiler_sample WHERE callsite_id IS NOT NULL);

-- Threads, processes and asynchronous contexts that samples were taken in.
CREATE VIEW stack_sample_task_context AS
SELECT id, upid, utid, async_context_id FROM _profiler_task_context
WHERE id IN (SELECT task_context_id FROM _profiler_sample WHERE callsite_id IS NOT NULL);

-- Processors and modes that samples were taken in.
CREATE VIEW stack_sample_execution_context AS
SELECT id, ucpu, cpu_mode FROM _profiler_execution_context
WHERE id IN (SELECT execution_context_id FROM _profiler_sample WHERE callsite_id IS NOT NULL);

-- Goroutines, fibers and the like that samples were taken in.
CREATE VIEW stack_sample_async_context AS
WITH RECURSIVE used(id) AS (
  SELECT t.async_context_id FROM _profiler_sample s JOIN _profiler_task_context t
  ON t.id = s.task_context_id WHERE s.callsite_id IS NOT NULL AND t.async_context_id IS NOT NULL
  UNION SELECT c.parent_id FROM used JOIN _profiler_async_context c USING (id)
  WHERE c.parent_id IS NOT NULL)
SELECT id, name, kind, parent_id FROM _profiler_async_context WHERE id IN (SELECT id FROM used);

-- Counters whose values were read with samples that have a call chain.
--   session_id: Session, see stack_sample_session.
--   cpu: Processor; NULL: all of them, or not known.
--   is_timebase: 1: this counter triggers the samples.
CREATE VIEW stack_sample_counter_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, unit, description,
       CAST((SELECT int_value FROM args
             WHERE arg_set_id = t.dimension_arg_set_id
               AND key IN ('session_id', 'perf_session_id')) AS INTEGER) AS session_id,
       cpu,
       CAST((SELECT int_value FROM args
             WHERE arg_set_id = t.source_arg_set_id
               AND key = 'is_timebase') AS INTEGER) AS is_timebase
FROM _track t WHERE is_counter AND type IN ('perf_cpu_counter', 'perf_global_counter',
       'stack_sample_cpu_counter', 'stack_sample_session_counter')
AND id IN (SELECT c.track_id FROM _profiler_sample s
           JOIN _profiler_counter_set p ON p.counter_set_id = s.counter_set_id
           JOIN counter c ON c.id = p.counter_id WHERE s.callsite_id IS NOT NULL);

-- Counters that were read with samples.
--   id: Row, see counter.
--   stack_sample_id: Sample with which the counter was read.
--   track_id: Track, see stack_sample_counter_track.
--   value: Value, in the track's unit.
CREATE VIEW stack_sample_counter AS
SELECT c.id, s.id AS stack_sample_id, c.track_id, c.value
FROM _profiler_sample s JOIN _profiler_counter_set p ON p.counter_set_id = s.counter_set_id
JOIN counter c ON c.id = p.counter_id WHERE s.callsite_id IS NOT NULL;

-- Single problems that stats counts, by name.
--   id: Row.
--   trace_id: Trace.
--   ts: Time (ns), if known.
--   byte_offset: Place in the trace, if known.
--   severity: info, notice, data_loss or error.
--   name: Kind of problem, see stats.
--   arg_set_id: Details, see args.
CREATE VIEW _trace_import_logs AS
SELECT l.id, l.trace_id, l.ts, l.byte_offset, s.severity, s.name, l.arg_set_id
FROM trace_import_logs l JOIN (SELECT DISTINCT key, severity, name FROM stats) s
ON s.key = l.stat_key;

-- The files that the database is made from, as trace_processor lists them. See input_file.
--   id: Row, see input_file.
--   parent_id: Archive that contains the file, see input_file.
--   name: Name of the file; archive!name for a file in an archive.
--   size: Size, inflated (bytes).
--   trace_type: proto for a trace; else the format in input_file.
--   processing_order: Place of the file in the order of loading, from 0; NULL for an archive.
--   is_container: 1: an archive.
CREATE VIEW trace_file AS
SELECT f.id,
       CAST((SELECT max(a.id) FROM input_file a
             WHERE a.format = 'archive' AND substr(f.path, 1, length(a.path) + 1) = a.path || '!')
         AS INTEGER) AS parent_id,
       f.path AS name, f.size_bytes AS size,
       CAST(iif(f.format = 'trace', 'proto', f.format) AS TEXT) AS trace_type,
       CAST(iif(f.format = 'archive', NULL,
                (SELECT count(*) FROM input_file b WHERE b.id < f.id AND b.format != 'archive'))
         AS INTEGER) AS processing_order,
       CAST(f.format = 'archive' AS INTEGER) AS is_container
FROM input_file f;
