-- SPDX-License-Identifier: Apache-2.0
--
-- Call stacks that any profiler sampled to find out what takes processor time.

INCLUDE PERFETTO MODULE callstacks.stack_profile;

-- Samples by time, cycles or instructions. Samples of other events (switches, tracepoints) are left
-- out if their session says so.
CREATE PERFETTO TABLE cpu_profiling_samples(
  -- Sample, see stack_sample.
  id LONG,
  -- Time (ns).
  ts TIMESTAMP,
  -- Thread.
  utid JOINID(thread.id),
  -- Thread id.
  tid LONG,
  -- Name of the thread.
  thread_name STRING,
  -- Processor, see cpu.id.
  ucpu LONG,
  -- Number of the processor on its machine.
  cpu LONG,
  -- Call stack.
  callsite_id LONG,
  -- Profiler, such as linux.perf or chrome.
  source STRING
) AS
SELECT s.id, s.ts, x.utid, t.tid, t.name AS thread_name, e.ucpu, c.cpu, s.callsite_id, s.source
FROM stack_sample s
LEFT JOIN stack_sample_session n ON n.id = s.session_id
LEFT JOIN stack_sample_task_context x ON x.id = s.task_context_id
LEFT JOIN thread t ON t.utid = x.utid
LEFT JOIN stack_sample_execution_context e ON e.id = s.execution_context_id
LEFT JOIN cpu c ON c.ucpu = e.ucpu
WHERE ifnull(n.timebase_unit, 'ns') IN ('ns', 'cycles', 'instructions')
ORDER BY s.ts, s.id;

-- These samples as one tree of functions, from the outermost one down.
CREATE PERFETTO TABLE cpu_profiling_summary_tree(
  -- Node: a function with its chain of callers.
  id LONG,
  -- Node that called this one; NULL for the outermost function.
  parent_id LONG,
  -- Name of the function.
  name STRING,
  -- File that has the function's code.
  mapping_name STRING,
  -- Source file of the function.
  source_file STRING,
  -- Line in the source file.
  line_number LONG,
  -- Samples that were taken in the function itself.
  self_count LONG,
  -- Samples that were taken in the function and its callees.
  cumulative_count LONG
) AS
SELECT * FROM _callstacks_summary!((SELECT callsite_id FROM cpu_profiling_samples));

-- The tree of cpu_profiling_summary_tree without the samples of callees.
CREATE PERFETTO VIEW _cpu_profiling_self_callsites AS
SELECT id, parent_id, name, mapping_name, source_file, line_number, self_count
FROM cpu_profiling_summary_tree;
