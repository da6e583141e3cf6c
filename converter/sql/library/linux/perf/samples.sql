-- SPDX-License-Identifier: Apache-2.0
--
-- Call stacks that perf sampled.

INCLUDE PERFETTO MODULE callstacks.stack_profile;

-- All samples of perf as one tree of functions, from the outermost one down.
CREATE PERFETTO TABLE linux_perf_samples_summary_tree(
  -- Node: a function with its chain of callers.
  id LONG,
  -- Node that called this one.
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
SELECT * FROM _callstacks_summary!((SELECT callsite_id FROM perf_sample));

-- The tree of linux_perf_samples_summary_tree without the samples of callees.
CREATE PERFETTO VIEW _linux_perf_raw_callstacks AS
SELECT id, parent_id, name, mapping_name, source_file, line_number, self_count
FROM linux_perf_samples_summary_tree;
