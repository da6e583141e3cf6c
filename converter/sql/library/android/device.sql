-- SPDX-License-Identifier: Apache-2.0
--
-- Names of Android devices.

-- The code name of a device, out of the fingerprint of its build:
-- BRAND/PRODUCT/NAME:RELEASE/ID/...
CREATE PERFETTO FUNCTION android_device_name_from_fingerprint(
  -- Fingerprint, such as google/raven/raven:12/SD1A.210817.023/7725841:user/release-keys.
  fingerprint STRING
)
-- Name, such as raven; NULL if the text is not a fingerprint.
RETURNS STRING AS
SELECT str_split(part, ':', 0) FROM (SELECT str_split($fingerprint, '/', 2) AS part);

-- Names of the devices that were recorded.
CREATE PERFETTO TABLE android_device_name(
  -- Code name.
  name STRING,
  -- Machine.
  machine_id JOINID(machine.id)
) AS
SELECT android_device_name_from_fingerprint(m.android_build_fingerprint) AS name, m.id AS machine_id
FROM machine m WHERE m.android_build_fingerprint IS NOT NULL;
