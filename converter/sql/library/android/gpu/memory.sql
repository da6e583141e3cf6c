-- SPDX-License-Identifier: Apache-2.0
--
-- Memory that processes have on the GPU.

INCLUDE PERFETTO MODULE linux.memory.general;

-- GPU memory of each process over time.
CREATE PERFETTO TABLE android_gpu_memory_per_process(
  -- Start (ns).
  ts TIMESTAMP,
  -- Until the next reading (ns).
  dur DURATION,
  -- Process.
  upid JOINID(process.id),
  -- Bytes.
  gpu_memory LONG
) AS
SELECT ts, dur, upid, CAST(value AS INTEGER) AS gpu_memory
FROM _all_counters_per_process WHERE name = 'GPU Memory';
