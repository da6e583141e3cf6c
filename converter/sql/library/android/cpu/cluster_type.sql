-- SPDX-License-Identifier: Apache-2.0
--
-- Kinds of processors: little, medium and big ones.

-- Kind of each processor. Clusters are numbered by their capacity, or their highest frequency: see
-- cpu.cluster_id.
CREATE PERFETTO TABLE android_cpu_cluster_mapping(
  -- Processor, see cpu.id.
  ucpu LONG,
  -- Number of the processor on its machine.
  cpu LONG,
  -- little, medium or big; NULL unless there are 2 to 4 clusters.
  cluster_type STRING
) AS
WITH clusters AS (SELECT count(DISTINCT cluster_id) AS n FROM cpu)
SELECT c.ucpu, c.cpu, CASE
    WHEN n NOT BETWEEN 2 AND 4 THEN NULL
    WHEN c.cluster_id = 0 THEN 'little'
    WHEN c.cluster_id = n - 1 THEN 'big'
    WHEN c.cluster_id BETWEEN 1 AND n - 2 THEN 'medium'
  END AS cluster_type
FROM cpu c, clusters;

-- The number of processors of a kind that ran a thread.
CREATE PERFETTO FUNCTION _active_cpu_count_for_cluster_type(
  -- Kind: little, medium or big.
  cluster_type STRING
)
RETURNS TABLE(
  -- Time of a change (ns).
  ts TIMESTAMP,
  -- Processors that ran a task from then on.
  active_cpu_count LONG
) AS
WITH
  task AS (
    SELECT s.ts, s.dur FROM sched s
    WHERE s.ucpu IN (SELECT m.ucpu FROM android_cpu_cluster_mapping m
                     WHERE m.cluster_type = $cluster_type)
      AND s.utid NOT IN (SELECT t.utid FROM thread t WHERE t.is_idle)
  ),
  change AS (
    SELECT ts, 1 AS n FROM task
    UNION ALL
    SELECT ts + dur, -1 FROM task WHERE dur != -1
  )
SELECT ts, sum(sum(n)) OVER (ORDER BY ts) AS active_cpu_count FROM change GROUP BY ts ORDER BY ts;
