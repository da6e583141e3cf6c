-- SPDX-License-Identifier: Apache-2.0
--
-- Processor time of Android's users and applications, by cluster of processors.

-- Counters of the CPU time that users took (module android.cpu.cpu_per_uid).
CREATE PERFETTO VIEW android_cpu_per_uid_track(
    -- Track, see counter_track.
    id ID,
    -- User id. Users of isolated and shared processes have the id of their range.
    uid LONG,
    -- Kind of processor, from 0.
    cluster LONG,
    -- CPU time in the trace (ms).
    total_cpu_millis LONG,
    -- Package that runs as this user.
    package_name STRING
) AS
SELECT id, uid, cluster, total_cpu_millis, package_name
FROM main.android_cpu_per_uid_track;

-- CPU time that a user took between two values of the counter (module android.cpu.cpu_per_uid).
CREATE PERFETTO VIEW android_cpu_per_uid_counter(
    -- Row of counter that the time begins with.
    id ID,
    -- Time (ns).
    ts TIMESTAMP,
    -- How long until the next value (ns).
    dur DURATION,
    -- Counter, see android_cpu_per_uid_track.
    track_id LONG,
    -- CPU time that was taken (ms).
    diff_ms LONG,
    -- CPU time that was taken, as a share of one processor.
    cpu_ratio DOUBLE
) AS
SELECT id, ts, dur, track_id, diff_ms, cpu_ratio
FROM main.android_cpu_per_uid_counter;
