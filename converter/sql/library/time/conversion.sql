-- SPDX-License-Identifier: Apache-2.0
--
-- Times in nanoseconds, as all tables have them, from and to other units.

-- The time itself in nanoseconds.
CREATE PERFETTO FUNCTION time_from_ns(
    -- Time in nanoseconds.
    nanos LONG
)
-- Nanoseconds.
RETURNS TIMESTAMP AS SELECT $nanos;

-- A time of microseconds in nanoseconds.
CREATE PERFETTO FUNCTION time_from_us(
    -- Time in microseconds.
    micros LONG
)
-- Nanoseconds.
RETURNS LONG AS SELECT $micros * 1000;

-- A time of milliseconds in nanoseconds.
CREATE PERFETTO FUNCTION time_from_ms(
    -- Time in milliseconds.
    millis LONG
)
-- Nanoseconds.
RETURNS TIMESTAMP AS SELECT $millis * 1000000;

-- A time of seconds in nanoseconds.
CREATE PERFETTO FUNCTION time_from_s(
    -- Time in seconds.
    seconds LONG
)
-- Nanoseconds.
RETURNS TIMESTAMP AS SELECT $seconds * 1000000000;

-- A time of minutes in nanoseconds.
CREATE PERFETTO FUNCTION time_from_min(
    -- Time in minutes.
    minutes LONG
)
-- Nanoseconds.
RETURNS TIMESTAMP AS SELECT $minutes * 60000000000;

-- A time of hours in nanoseconds.
CREATE PERFETTO FUNCTION time_from_hours(
    -- Time in hours.
    hours LONG
)
-- Nanoseconds.
RETURNS TIMESTAMP AS SELECT $hours * 3600000000000;

-- A time of days in nanoseconds.
CREATE PERFETTO FUNCTION time_from_days(
    -- Time in days.
    days LONG
)
-- Nanoseconds.
RETURNS LONG AS SELECT $days * 86400000000000;

-- The time itself.
CREATE PERFETTO FUNCTION time_to_ns(
    -- Time in nanoseconds.
    nanos TIMESTAMP
)
-- Nanoseconds.
RETURNS LONG AS SELECT $nanos;

-- A time in whole microseconds.
CREATE PERFETTO FUNCTION time_to_us(
    -- Time in nanoseconds.
    nanos TIMESTAMP
)
-- Microseconds, rounded towards 0.
RETURNS LONG AS SELECT $nanos / 1000;

-- A time in whole milliseconds.
CREATE PERFETTO FUNCTION time_to_ms(
    -- Time in nanoseconds.
    nanos TIMESTAMP
)
-- Milliseconds, rounded towards 0.
RETURNS LONG AS SELECT $nanos / 1000000;

-- A time in whole seconds.
CREATE PERFETTO FUNCTION time_to_s(
    -- Time in nanoseconds.
    nanos TIMESTAMP
)
-- Seconds, rounded towards 0.
RETURNS LONG AS SELECT $nanos / 1000000000;

-- A time in whole minutes.
CREATE PERFETTO FUNCTION time_to_min(
    -- Time in nanoseconds.
    nanos TIMESTAMP
)
-- Minutes, rounded towards 0.
RETURNS LONG AS SELECT $nanos / 60000000000;

-- A time in whole hours.
CREATE PERFETTO FUNCTION time_to_hours(
    -- Time in nanoseconds.
    nanos TIMESTAMP
)
-- Hours, rounded towards 0.
RETURNS LONG AS SELECT $nanos / 3600000000000;

-- A time in whole days.
CREATE PERFETTO FUNCTION time_to_days(
    -- Time in nanoseconds.
    nanos TIMESTAMP
)
-- Days, rounded towards 0.
RETURNS LONG AS SELECT $nanos / 86400000000000;
