-- SPDX-License-Identifier: Apache-2.0
--
-- Names for Android's user ids.

-- Users of the system, with the numbers of Android's android_filesystem_config.h: uid, name.
CREATE PERFETTO TABLE _android_system_user AS
SELECT 1000 + key AS uid, 'AID_' || value AS name FROM json_each('["SYSTEM_USER", "RADIO",
  "BLUETOOTH", "GRAPHICS", "INPUT", "AUDIO", "CAMERA", "LOG", "COMPASS", "MOUNT", "WIFI", "ADB",
  "INSTALL", "MEDIA", "DHCP", "SDCARD_RW", "VPN", "KEYSTORE", "USB", "DRM", "MDNSR", "GPS",
  "UNUSED1", "MEDIA_RW", "MTP", "UNUSED2", "DRMRPC", "NFC", "SDCARD_R", "CLAT", "LOOP_RADIO",
  "MEDIA_DRM", "PACKAGE_INFO", "SDCARD_PICS", "SDCARD_AV", "SDCARD_ALL", "LOGD", "SHARED_RELRO",
  "DBUS", "TLSDATE", "MEDIA_EX", "AUDIOSERVER", "METRICS_COLL", "METRICSD", "WEBSERV",
  "DEBUGGERD", "MEDIA_CODEC", "CAMERASERVER", "FIREWALL", "TRUNKS", "NVRAM", "DNS", "DNS_TETHER",
  "WEBVIEW_ZYGOTE", "VEHICLE_NETWORK", "MEDIA_AUDIO", "MEDIA_VIDEO", "MEDIA_IMAGE", "TOMBSTONED",
  "MEDIA_OBB", "ESE", "OTA_UPDATE", "AUTOMOTIVE_EVS", "LOWPAN", "HSM", "RESERVED_DISK", "STATSD",
  "INCIDENTD", "SECURE_ELEMENT", "LMKD", "LLKD", "IORAPD", "GPU_SERVICE", "NETWORK_STACK", "GSID",
  "FSVERITY_CERT", "CREDSTORE", "EXTERNAL_STORAGE", "EXT_DATA_RW", "EXT_OBB_RW", "CONTEXT_HUB",
  "VIRTMANAGER", "ARTD", "UWB", "THREAD_NETWORK", "DICED", "DMESGD", "JC_WEAVER", "JC_STRONGBOX",
  "JC_IDENTITYCRED", "SDK_SANDBOX", "SECURITY_LOG_WRITER", "PRNG_SEEDER", "UPROBESTATS"]')
UNION ALL
VALUES (0, 'AID_ROOT'), (2000, 'AID_SHELL'), (2001, 'AID_CACHE'), (2002, 'AID_DIAG'),
  (9999, 'AID_NOBODY');

CREATE PERFETTO INDEX _android_system_user_uid ON _android_system_user(uid);

-- The package that runs as a user. Some packages share a user: Google's services come first, and
-- Android's content providers last.
CREATE PERFETTO FUNCTION android_package_lookup(
  -- User id, of any of the people who use the device.
  uid LONG
)
-- Name of the package. For users of the system: the name of the user. For unknown users:
-- uid=NUMBER.
RETURNS STRING AS
SELECT coalesce(
  (SELECT package_name FROM package_list
   WHERE uid = $uid % 100000 AND uid >= 10000 AND package_name != ''
   ORDER BY package_name = 'com.google.android.gms' DESC,
     package_name GLOB 'com.android.providers.*', id
   LIMIT 1),
  (SELECT name FROM _android_system_user WHERE uid = $uid % 100000),
  CASE WHEN $uid % 100000 >= 90000 THEN 'ISOLATED_UID'
    WHEN $uid % 100000 BETWEEN 50000 AND 59999 THEN 'SHARED_GID' END,
  'uid=' || $uid);
