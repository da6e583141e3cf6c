-- SPDX-License-Identifier: Apache-2.0
--
-- Threads of the kernel.

-- Threads of the kernel: kthreadd (process 2), and what it started. Each is a process, too.
CREATE PERFETTO TABLE linux_kernel_threads(
  -- Process.
  upid JOINID(process.id),
  -- Thread.
  utid JOINID(thread.id),
  -- Process id.
  pid LONG,
  -- Thread id.
  tid LONG,
  -- Name of the process.
  process_name STRING,
  -- Name of the thread.
  thread_name STRING,
  -- Machine.
  machine_id JOINID(machine.id)
) AS
SELECT p.upid, t.utid, p.pid, t.tid, p.name AS process_name, t.name AS thread_name, p.machine_id
FROM process p JOIN thread t ON t.upid = p.upid
WHERE p.pid = 2 OR p.parent_upid IN (SELECT upid FROM process WHERE pid = 2);
