-- SPDX-License-Identifier: Apache-2.0
--
-- Threads with their processes.

-- Each thread with its process, if it has one.
CREATE PERFETTO TABLE _thread_with_process(
    -- Thread.
    utid JOINID(thread.id),
    -- Number of the thread in the system.
    tid LONG,
    -- Name of the thread.
    thread_name STRING,
    -- 1: the thread is the main one of its process.
    is_main_thread BOOL,
    -- Process.
    upid JOINID(process.id),
    -- Number of the process in the system.
    pid LONG,
    -- Name of the process.
    process_name STRING
) AS
SELECT t.utid, t.tid, t.name AS thread_name, t.is_main_thread, p.upid, p.pid, p.name AS process_name
FROM thread t LEFT JOIN process p ON p.upid = t.upid;
