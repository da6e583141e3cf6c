-- SPDX-License-Identifier: Apache-2.0
--
-- Perfetto's views of what Android tells. In Perfetto some of them need an INCLUDE PERFETTO MODULE; here they are
-- there.

-- Counters of the CPU time that users took (module android.cpu.cpu_per_uid).
--   id: Track, see counter_track.
--   uid: User id; that of a range, for users of isolated and shared processes.
--   cluster: Kind of processor, from 0.
--   total_cpu_millis: CPU time in the trace (ms).
--   package_name: Package that runs as this user.
CREATE VIEW android_cpu_per_uid_track AS
SELECT track_id AS id, uid, cluster, total_cpu_millis,
       (SELECT p.package_name FROM package_list p WHERE p.uid = t.uid % 100000 AND p.uid >= 10000 LIMIT 1)
         AS package_name
FROM _android_cpu_per_uid t;

-- CPU time that users took between two values of its counter (module android.cpu.cpu_per_uid).
--   id: Row of counter that the time begins with.
--   ts: When (ns).
--   dur: How long until the next value (ns).
--   track_id: Counter, see android_cpu_per_uid_track.
--   diff_ms: CPU time that was taken (ms).
--   cpu_ratio: The same as a share of one processor.
CREATE VIEW android_cpu_per_uid_counter AS
SELECT id, ts, next_ts - ts AS dur, track_id, next_value - value AS diff_ms,
       (next_value - value) * 1e6 / (next_ts - ts) AS cpu_ratio
FROM (
  SELECT id, ts, track_id, value, lead(ts) OVER track AS next_ts, lead(value) OVER track AS next_value
  FROM counter WHERE track_id IN (SELECT track_id FROM _android_cpu_per_uid)
  WINDOW track AS (PARTITION BY track_id ORDER BY ts, id))
WHERE next_value IS NOT NULL;
