-- SPDX-License-Identifier: Apache-2.0
--
-- Args as Perfetto shows them: one row for each arg. The tables store a whole set of args as one
-- row (see schema.h). The view is one SELECT over a join. Therefore SQLite folds the view into the
-- query that uses the view. SQLite would first compute the whole rows of a view with UNION ALL.
-- CROSS JOIN keeps the order: from a set to its fields.

-- Values that belong to rows of other tables. Each row has one value. A row of another table names
-- its values by its arg_set_id.
--   id: Row.
--   arg_set_id: The set this value belongs to; equal sets are stored once. For a kernel event: the
--     id of the event.
--   flat_key: Key without array indexes.
--   key: Key, with array indexes.
--   int_value: Value of integers, booleans and pointers.
--   string_value: Value of texts.
--   real_value: Value of floating point numbers.
--   value_type: int, uint, string, real, pointer, bool, json or null.
--   display_value: The value as text, whatever its type.
CREATE VIEW args AS
SELECT CAST(arg_set_id << 20 | slot AS INTEGER) AS id, arg_set_id,
  CAST(coalesce(flat_key, key) AS TEXT) AS flat_key, key,
  CAST(CASE WHEN type <> 3 AND typeof(value) = 'integer' THEN value END AS INTEGER) AS int_value,
  CAST(CASE WHEN typeof(value) = 'text' THEN value END AS TEXT) AS string_value,
  CAST(CASE WHEN type = 3 THEN value END AS REAL) AS real_value,
  CAST(CASE WHEN type < 2 AND typeof(value) = 'text' THEN 'string' ELSE CASE type
    WHEN 0 THEN 'int' WHEN 1 THEN 'uint' WHEN 2 THEN 'string' WHEN 4 THEN 'pointer'
    WHEN 5 THEN 'bool' WHEN 6 THEN 'json' WHEN 7 THEN 'null'
    ELSE 'real' END END AS TEXT) AS value_type,
  CAST(CASE WHEN typeof(value) = 'text' THEN value ELSE CASE type WHEN 1 THEN printf('%u', value)
    WHEN 3 THEN CAST(CAST(value AS REAL) AS TEXT) WHEN 4 THEN printf('0x%x', value)
    WHEN 5 THEN CASE value WHEN 0 THEN 'false' ELSE 'true' END
      ELSE value END END AS TEXT) AS display_value
FROM (SELECT e.id AS arg_set_id, f.slot, f.key, f.flat_key, f.type, CASE f.slot
    WHEN 0 THEN e.value_0 WHEN 1 THEN e.value_1 WHEN 2 THEN e.value_2 WHEN 3 THEN e.value_3
    WHEN 4 THEN e.value_4 WHEN 5 THEN e.value_5 WHEN 6 THEN e.value_6 WHEN 7 THEN e.value_7
    WHEN 8 THEN e.value_8 WHEN 9 THEN e.value_9 WHEN 10 THEN e.value_10 WHEN 11 THEN e.value_11
    WHEN 12 THEN e.value_12 WHEN 13 THEN e.value_13 WHEN 14 THEN e.value_14 WHEN 15 THEN e.value_15
    WHEN 16 THEN e.value_16 WHEN 17 THEN e.value_17 WHEN 18 THEN e.value_18 WHEN 19 THEN e.value_19
    WHEN 20 THEN e.value_20 WHEN 21 THEN e.value_21 WHEN 22 THEN e.value_22 WHEN 23 THEN e.value_23
    WHEN 24 THEN e.value_24 WHEN 25 THEN e.value_25 WHEN 26 THEN e.value_26 WHEN 27 THEN e.value_27
    WHEN 28 THEN e.value_28 WHEN 29 THEN e.value_29 WHEN 30 THEN e.value_30 WHEN 31 THEN e.value_31
    WHEN 32 THEN e.value_32 WHEN 33 THEN e.value_33 WHEN 34 THEN e.value_34 WHEN 35 THEN e.value_35
    WHEN 36 THEN e.value_36 WHEN 37 THEN e.value_37 WHEN 38 THEN e.value_38 WHEN 39 THEN e.value_39
    WHEN 40 THEN e.value_40 WHEN 41 THEN e.value_41 WHEN 42 THEN e.value_42 WHEN 43 THEN e.value_43
    WHEN 44 THEN e.value_44 WHEN 45 THEN e.value_45 WHEN 46 THEN e.value_46 WHEN 47 THEN e.value_47
    WHEN 48 THEN e.value_48 WHEN 49 THEN e.value_49 WHEN 50 THEN e.value_50 WHEN 51 THEN e.value_51
    WHEN 52 THEN e.value_52 WHEN 53 THEN e.value_53 WHEN 54 THEN e.value_54 WHEN 55 THEN e.value_55
    WHEN 56 THEN e.value_56 WHEN 57 THEN e.value_57 WHEN 58 THEN e.value_58 WHEN 59 THEN e.value_59
    WHEN 60 THEN e.value_60 WHEN 61 THEN e.value_61 WHEN 62 THEN e.value_62 WHEN 63 THEN e.value_63
    ELSE (SELECT m.value FROM _arg_more m
          WHERE m.arg_set_id = e.id AND m.slot = f.slot) END AS value
  FROM _arg_set e CROSS JOIN _arg_field f ON f.kind_id = e.kind_id)
WHERE value IS NOT NULL OR type > 6;
