-- SPDX-License-Identifier: Apache-2.0
--
-- Users of an Android device.

-- Users of an Android device (module android.user_list).
CREATE PERFETTO VIEW android_user_list(
    -- Number of the user.
    android_user_id LONG,
    -- Kind of user.
    type STRING
) AS
SELECT android_user_id, type
FROM main.android_user_list;
