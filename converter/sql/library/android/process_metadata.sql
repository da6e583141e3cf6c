-- SPDX-License-Identifier: Apache-2.0
--
-- Packages that Android's processes belong to.

INCLUDE PERFETTO MODULE android.user_list;

-- Packages of each user id: uid, cnt.
CREATE PERFETTO TABLE _uid_package_count AS
SELECT uid, count(*) AS cnt FROM package_list GROUP BY uid;

CREATE PERFETTO INDEX _uid_package_count_uid ON _uid_package_count(uid);

-- The user id that a package was installed with. Android runs an SDK sandbox 10000 above the user
-- of its app, and a private compute process 20000 above.
CREATE PERFETTO FUNCTION _app_id_to_base_package(
  -- User id of a process, see process.android_appid.
  app_id LONG
)
RETURNS LONG AS
SELECT $app_id - iif($app_id BETWEEN 20000 AND 39999, ($app_id / 10000 - 1) * 10000, 0);

-- The package of a process: the only package of its user, or the package with the longest name with
-- which the process's name begins. An isolated process (90000 to 99999) has a separate user, so
-- only its name counts.
CREATE PERFETTO FUNCTION _android_package_for_process(
  -- User id that the package was installed with.
  uid LONG,
  -- Packages of this user.
  uid_count LONG,
  -- Name of the process.
  process_name STRING
)
RETURNS TABLE(package_name STRING, version_code LONG, debuggable BOOL) AS
SELECT p.package_name, p.version_code, p.debuggable FROM package_list p
WHERE iif($uid BETWEEN 90000 AND 99999 AND p.uid != $uid,
  str_split($process_name, ':', 0) GLOB p.package_name || '*',
  p.uid = $uid AND ($uid_count = 1 OR $process_name GLOB p.package_name || '*'))
ORDER BY length(p.package_name) DESC, p.id
LIMIT 1;

-- Processes that are threads of the kernel.
CREATE PERFETTO TABLE _android_kernel_tasks(
  -- Process.
  upid LONG
) AS
SELECT upid FROM process
WHERE pid = 0 OR parent_upid IN (SELECT upid FROM process WHERE pid = 0 OR name = 'kthreadd')
ORDER BY upid;

CREATE PERFETTO INDEX _android_kernel_tasks_upid ON _android_kernel_tasks(upid);

-- Whether a process is a thread of the kernel.
CREATE PERFETTO FUNCTION android_is_kernel_task(
  -- Process.
  upid LONG
)
-- 1 or 0.
RETURNS BOOL AS
SELECT $upid IN (SELECT upid FROM _android_kernel_tasks);

-- Package of each process.
CREATE PERFETTO TABLE android_process_metadata(
  -- Process.
  upid JOINID(process.id),
  -- Process id.
  pid LONG,
  -- Name of the process; if it was read just after the fork, the whole of its command line.
  process_name STRING,
  -- User id of the app.
  uid LONG,
  -- 1: several packages share this user; NULL otherwise.
  shared_uid BOOL,
  -- Person who uses the device, see android_user_list.
  user_id LONG,
  -- Kind of this person: SECONDARY, HEADLESS, ...
  user_type STRING,
  -- Package.
  package_name STRING,
  -- Version of the package.
  version_code LONG,
  -- Whether debuggers may attach to the package.
  debuggable LONG,
  -- Whether the process is a thread of the kernel.
  is_kernel_task BOOL
) AS
SELECT p.upid, p.pid,
  iif(length(p.name) = 15 AND (p.cmdline IN ('zygote', 'zygote64', '<pre-initialized>')
    OR p.cmdline GLOB '*' || p.name), p.cmdline, p.name) AS process_name,
  p.android_appid AS uid, p.android_user_id AS user_id, u.type AS user_type,
  nullif(n.cnt > 1, 0) AS shared_uid, k.package_name, k.version_code, k.debuggable,
  android_is_kernel_task(p.upid) AS is_kernel_task
FROM process p
LEFT JOIN _uid_package_count n ON n.uid = _app_id_to_base_package(p.android_appid)
LEFT JOIN _android_package_for_process(_app_id_to_base_package(p.android_appid), n.cnt, p.name) k
LEFT JOIN android_user_list u ON u.android_user_id = p.android_user_id
ORDER BY p.upid;
