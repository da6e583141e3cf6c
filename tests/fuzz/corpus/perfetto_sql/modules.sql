INCLUDE PERFETTO MODULE intervals.*; INCLUDE PERFETTO MODULE time.conversion; SELECT IMPORT('slices.flow');
CREATE PERFETTO TABLE a AS SELECT 1 AS id, 2 AS ts, 3 AS dur; SELECT * FROM _interval_intersect!((a, a), ());
SELECT c0, c1 FROM __intrinsic_table_ptr(__intrinsic_interval_create((SELECT __intrinsic_timestamp_set_agg(ts) FROM a), (SELECT __intrinsic_timestamp_set_agg(ts + 4) FROM a))) WHERE __intrinsic_table_ptr_bind(c0, 'ts') AND __intrinsic_table_ptr_bind(c1, 'dur');
SELECT count(*) FROM __intrinsic_stdlib_objects
