-- SPDX-License-Identifier: Apache-2.0
--
-- How long processors slept, in sum.

INCLUDE PERFETTO MODULE linux.cpu.idle;

-- Idle states of each processor, in sum.
CREATE PERFETTO TABLE cpu_idle_stats(
  -- Processor.
  cpu LONG,
  -- State, from 1: the kernel's state 0 is 1 here.
  state LONG,
  -- How often the processor entered this state.
  count LONG,
  -- Total time in this state (ns).
  dur DURATION,
  -- How long each time, on average (ns).
  avg_dur DURATION,
  -- Share of the time for which the processor's states are known (percent).
  idle_percent DOUBLE
) AS
WITH
  summed AS (
    SELECT cpu, idle, count(*) AS n, sum(dur) AS dur,
           sum(sum(dur)) OVER (PARTITION BY cpu) AS cpu_dur
    FROM cpu_idle_counters GROUP BY cpu, idle
  )
SELECT cpu, idle + 1 AS state, n AS count, dur, dur / n AS avg_dur,
  100.0 * dur / cpu_dur AS idle_percent
FROM summed WHERE idle >= 0 ORDER BY cpu, idle;
