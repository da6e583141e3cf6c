-- SPDX-License-Identifier: Apache-2.0
--
-- Flags of Android's features (aconfig).

-- Flags that Android's features depend on (module android.aflags).
CREATE PERFETTO VIEW android_aflags(
    -- Time (ns).
    ts TIMESTAMP,
    -- Package.
    package STRING,
    -- Name.
    name STRING,
    -- Namespace.
    flag_namespace STRING,
    -- Container.
    container STRING,
    -- Value.
    value STRING,
    -- Value after the next boot.
    staged_value STRING,
    -- The users who may change the flag.
    permission STRING,
    -- The source of the value.
    value_picked_from STRING,
    -- Place where the flag is stored.
    storage_backend STRING,
    -- Type.
    type STRING
) AS
SELECT ts, package, name, flag_namespace, container, value, staged_value, permission,
       value_picked_from, storage_backend, type
FROM main.android_aflags;
