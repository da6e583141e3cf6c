-- SPDX-License-Identifier: Apache-2.0
--
-- Lines of systemd's journal.

-- Entries of systemd's journal (module linux.systemd_journald).
CREATE PERFETTO VIEW linux_systemd_journald_logs(
    -- Row.
    id ID,
    -- Time (ns).
    ts TIMESTAMP,
    -- Thread that wrote the line.
    utid JOINID(thread.id),
    -- Priority: 0 emergency, 1 alert, 2 critical, 3 error, 4 warning, 5 notice, 6 info, 7 debug.
    prio LONG,
    -- Identifier of the program.
    tag STRING,
    -- Message.
    msg STRING,
    -- User id of the program.
    uid STRING,
    -- Name of the thread.
    comm STRING,
    -- Unit of the line's process.
    systemd_unit STRING,
    -- Machine.
    hostname STRING,
    -- Path of the line into the journal.
    transport STRING
) AS
SELECT id, ts, utid, prio, tag, msg, uid, comm, systemd_unit, hostname, transport
FROM main.linux_systemd_journald_logs;
