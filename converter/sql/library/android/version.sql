-- SPDX-License-Identifier: Apache-2.0
--
-- Version of the Android that was recorded.

-- Version of the SDK, such as 35 for Android 15; NULL if the trace does not have it.
CREATE PERFETTO FUNCTION _android_sdk_version()
RETURNS LONG AS
SELECT (SELECT int_value FROM metadata WHERE name = 'android_sdk_version' LIMIT 1);
