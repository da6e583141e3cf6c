-- SPDX-License-Identifier: Apache-2.0
--
-- Values of one type as another.

-- A value as an integer.
CREATE PERFETTO MACRO cast_int(
    -- Value.
    value Expr
)
RETURNS Expr AS CAST($value AS INT);

-- A value as a number with a fraction.
CREATE PERFETTO MACRO cast_double(
    -- Value.
    value Expr
)
RETURNS Expr AS CAST($value AS REAL);

-- A value as text.
CREATE PERFETTO MACRO cast_string(
    -- Value.
    value Expr
)
RETURNS Expr AS CAST($value AS TEXT);
