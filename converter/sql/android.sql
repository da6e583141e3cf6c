-- SPDX-License-Identifier: Apache-2.0
--
-- Perfetto's views of Android's data. In Perfetto, some of these views need an INCLUDE PERFETTO
-- MODULE. mmsql's databases always have all these views.

-- Counters of the CPU time that users took (module android.cpu.cpu_per_uid).
--   id: Track, see counter_track.
--   uid: User id. Users of isolated and shared processes have the id of their range.
--   cluster: Kind of processor, from 0.
--   total_cpu_millis: CPU time in the trace (ms).
--   package_name: Package that runs as this user.
CREATE VIEW android_cpu_per_uid_track AS
SELECT track_id AS id, uid, cluster, total_cpu_millis,
       (SELECT p.package_name FROM package_list p
        WHERE p.uid = t.uid % 100000 AND p.uid >= 10000 LIMIT 1)
         AS package_name
FROM _android_cpu_per_uid t;

-- CPU time that a user took between two values of the counter (module android.cpu.cpu_per_uid).
--   id: Row of counter at the start of the time.
--   ts: Time (ns).
--   dur: Time until the next value (ns).
--   track_id: Counter, see android_cpu_per_uid_track.
--   diff_ms: CPU time that was taken (ms).
--   cpu_ratio: CPU time as a share of one processor.
CREATE VIEW android_cpu_per_uid_counter AS
SELECT id, ts, CAST(next_ts - ts AS INTEGER) AS dur, track_id,
       CAST(next_value - value AS REAL) AS diff_ms,
       CAST((next_value - value) * 1e6 / (next_ts - ts) AS REAL) AS cpu_ratio
FROM (
  SELECT id, ts, track_id, value, lead(ts) OVER track AS next_ts,
         lead(value) OVER track AS next_value
  FROM counter WHERE track_id IN (SELECT track_id FROM _android_cpu_per_uid)
  WINDOW track AS (PARTITION BY track_id ORDER BY ts, id))
WHERE next_value IS NOT NULL;

-- Lines of Android's log, and of logs in track events.
--   prio: Priority: 2 verbose, 3 debug, 4 info, 5 warning, 6 error, 7 fatal.
CREATE VIEW android_logs AS
SELECT id, ts, utid, prio, tag, msg FROM logs WHERE log_source = 'android_logcat';

-- Entries of systemd's journal (module linux.systemd_journald).
--   id: Row.
--   ts: Time (ns).
--   utid: Thread that wrote the line.
--   prio: Priority: 0 emergency, 1 alert, 2 critical, 3 error, 4 warning, 5 notice, 6 info, 7
--     debug.
--   tag: Identifier of the program.
--   msg: Message.
--   uid: User id of the program.
--   comm: Name of the thread.
--   systemd_unit: Unit of the line's process.
--   hostname: Machine.
--   transport: Path of the line into the journal.
CREATE VIEW linux_systemd_journald_logs AS
SELECT id, ts, utid, prio, tag, msg,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = l.arg_set_id AND a.key = 'uid') AS INTEGER) AS uid,
       CAST((SELECT string_value FROM args a
             WHERE a.arg_set_id = l.arg_set_id AND a.key = 'comm') AS TEXT) AS comm,
       CAST((SELECT string_value FROM args a
             WHERE a.arg_set_id = l.arg_set_id AND a.key = 'systemd_unit') AS TEXT) AS systemd_unit,
       CAST((SELECT string_value FROM args a
             WHERE a.arg_set_id = l.arg_set_id AND a.key = 'hostname') AS TEXT) AS hostname,
       CAST((SELECT string_value FROM args a
             WHERE a.arg_set_id = l.arg_set_id AND a.key = 'transport') AS TEXT) AS transport
FROM logs l WHERE log_source = 'systemd_journald';

-- Flags that Android's features depend on (module android.aflags).
CREATE VIEW android_aflags AS
SELECT ts, package, name, flag_namespace, container, value, staged_value, permission,
       value_picked_from,
       storage_backend, type
FROM _android_aflag;

-- Users of an Android device (module android.user_list).
CREATE VIEW android_user_list AS
SELECT android_user_id, type FROM _android_user;

-- Network packets that Android's recorder saw (module android.network_packets).
--   id: Slice, see slice.
--   ts: Time (ns).
--   dur: Time of a bundle of packets (ns).
--   track_name: Always NULL.
--   package_name: Package that sent or received the packet, or the user id.
--   packet_tcp_flags: TCP flags, a letter each.
--   packet_tcp_flags_int: packet_tcp_flags as a number.
--   socket_tag: Tag of the socket, in hexadecimal.
--   socket_tag_int: socket_tag as a number.
CREATE VIEW android_network_packets AS
SELECT s.id, s.ts, s.dur, s.category AS track_name, s.name AS package_name, n.iface, n.direction,
       n.packet_count,
       n.packet_length, n.packet_transport, n.packet_tcp_flags_str AS packet_tcp_flags,
       n.packet_tcp_flags AS packet_tcp_flags_int, n.socket_tag_str AS socket_tag,
       n.socket_tag AS socket_tag_int,
       n.socket_uid, n.local_port, n.remote_port, n.packet_icmp_type, n.packet_icmp_code
FROM _network_packet n JOIN slice s ON s.id = n.slice_id;
