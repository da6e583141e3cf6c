# SPDX-License-Identifier: Apache-2.0
"""Modules of the library: intervals, counters, slices, scheduling, graphs, times; their
documentation."""
import time
import unittest

import lib
import test_query
from protowire import field

MILLION = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999999)"
BEGIN = 1000


def values(columns, *rows):
    """A subquery that gives the rows; without rows, an empty subquery."""
    texts = ", ".join("(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")"
                      for row in rows)
    if not rows:
        return "(SELECT " + ", ".join(f"0 AS {name}" for name in columns.split()) + " WHERE 0)"
    return f"(WITH v({', '.join(columns.split())}) AS (VALUES {texts}) SELECT * FROM v)"


class Case(test_query.Case):
    def rows(self, module, sql, **options):
        """The rows of the last result."""
        out = self.ask(f"INCLUDE PERFETTO MODULE {module}; {sql}", **options)
        return [tuple(None if c == "" else int(c) if c.lstrip("-").isdigit() else c
                      for c in line.split(","))
                for line in out.split("\n\n")[-1].splitlines()[1:]]

    def fails(self, module, sql, why):
        self.assertIn(why, self.ask(f"INCLUDE PERFETTO MODULE {module}; {sql}", code=1))

    def quickly(self, module, sql):
        begin = time.monotonic()
        rows = self.rows(module, sql, timeout_s=300)
        self.assertLess(time.monotonic() - begin, 240)
        return rows


class Intervals(Case):
    def test_create(self):
        make = "SELECT * FROM _interval_create!({}, {})"
        starts, ends = values("ts", (30,), (10,), (12,), (90,)), values("ts", (40,), (20,), (10,))
        self.assertEqual(self.rows("intervals.create_intervals", make.format(starts, ends)),
                         [(10, 10), (12, 8), (30, 10)])
        self.assertEqual(self.rows("intervals.create_intervals", make.format(starts, values("ts"))),
                         [])
        self.assertEqual(self.rows("intervals.create_intervals", make.format(values("ts"), ends)),
                         [])

    def fill(self, groups, rows):
        bounds = self.rows("intervals.fill_gaps", "SELECT trace_start(), trace_end()")[0]
        data = values("ts dur g v",
                      *[(None if ts is None else bounds[0] + ts, *rest) for ts, *rest in rows])
        out = self.rows("intervals.fill_gaps",
                        f"SELECT ts - {bounds[0]}, dur, g, v FROM (SELECT * "
                        f"FROM _intervals_fill_gaps!({groups}, (v), (SELECT * FROM {data}))) "
                        "ORDER BY g, ts" if groups == "(g)" else
                        f"SELECT ts - {bounds[0]}, dur, 0, v FROM _intervals_fill_gaps!({groups}, "
                        f"(v), {data}) ORDER BY ts")
        return out, bounds[1] - bounds[0]

    def test_fill_gaps(self):
        out, length = self.fill("(g)", [(10, 5, 1, 7), (20, 5, 1, 8), (25, 5, 1, 9), (0, 3, 2, 7),
                                        (None, None, 3, None)])
        self.assertEqual(out, [(0, 10, 1, None), (10, 5, 1, 7), (15, 5, 1, None), (20, 5, 1, 8),
                               (25, 5, 1, 9), (30, length - 30, 1, None),
                               (0, 3, 2, 7), (3, length - 3, 2, None), (0, length, 3, None)])
        out, length = self.fill("(NULL)", [(10, 5, 1, 7), (20, 5, 2, 8)])
        self.assertEqual(out, [(0, 10, 0, None), (10, 5, 0, 7), (15, 5, 0, None), (20, 5, 0, 8),
                               (25, length - 25, 0, None)])
        self.assertEqual(self.fill("(g)", [])[0], [(0, length, None, None)])

    def test_intersect(self):
        a = values("id ts dur p q", (0, 0, 10, 1, "x"), (1, 5, 10, 2, "x"), (2, 20, 0, 1, "y"))
        b = values("id ts dur p q", (7, 4, 4, 1, "x"), (8, 6, 20, 2, "x"), (9, 20, 9, 1, "y"),
                   (5, 0, 90, 3, "z"))
        both = "SELECT * FROM _interval_intersect!(({}), {}) ORDER BY ts, dur, 3, 4"
        self.assertEqual(self.rows("intervals.intersect", both.format(f"{a}, {b}", "(p, q)")),
                         [(4, 4, 0, 7, 1, "x"), (6, 9, 1, 8, 2, "x"), (20, 0, 2, 9, 1, "y")])
        self.assertEqual(self.rows("intervals.intersect", both.format(f"{a}, {b}", "(p)")),
                         [(4, 4, 0, 7, 1), (6, 9, 1, 8, 2), (20, 0, 2, 9, 1)])
        self.assertEqual(len(self.rows("intervals.intersect", both.format(f"{a}, {b}", "()"))), 9)
        self.assertEqual(self.rows("intervals.intersect",
                                   both.format(f"{a}, {values('id ts dur')}", "()")), [])
        three = ", ".join(values("id ts dur", (n, n, 10)) for n in range(15))
        self.assertEqual(self.rows("intervals.intersect", both.format(three, "()")), [])
        three = ", ".join(values("id ts dur", (n, n, 20)) for n in range(15))
        self.assertEqual(self.rows("intervals.intersect", both.format(three, "()")),
                         [(14, 6, *range(15))])
        self.assertEqual(self.rows("intervals.intersect",
                                   f"SELECT * FROM _interval_intersect_single!(6, 3, {a}) "
                                   "ORDER BY id"),
                         [(0, 6, 3), (1, 6, 3)])
        self.assertEqual(self.rows("intervals.intersect",
                                   "SELECT * FROM _interval_intersect_with_col_names!("
                                   f"{values('i t d p', (0, 0, 9, 1))}, i, t, d, "
                                   f"{values('k s e p', (3, 4, 9, 1), (4, 0, 9, 2))}, k, s, e, "
                                   "(p))"),
                         [(4, 5, 0, 3, 1)])

    def test_rows_of_an_intersection_may_have_any_order(self):
        rows = [(n, 10 * n, 40 - n, n % 2, f"k{n % 3}") for n in range(12)]
        other = [(n, 7 * n, 9, n % 2, f"k{n % 3}") for n in range(20)]
        both = "SELECT * FROM _interval_intersect!(({}, {}), (p, q)) ORDER BY ts, dur, 3, 4"
        names, mixed = "id ts dur p q", sorted(rows, key=lambda row: row[0] * 7 % 12)
        want = self.rows("intervals.intersect", both.format(values(names, *rows),
                                                            values(names, *other)))
        self.assertGreater(len(want), 5)
        self.assertEqual(self.rows("intervals.intersect",
                                   both.format(values(names, *mixed),
                                               values(names, *reversed(other)))), want)

    def test_overlaps_of_rows_in_any_order(self):
        rows = [(30, 5), (10, 10), (12, -1), (35, 0), (15, 5)]
        self.assertEqual(self.rows("intervals.overlap",
                                   "SELECT * FROM intervals_overlap_count!("
                                   f"{values('ts dur', *rows)}, ts, dur)"),
                         [(10, 1), (12, 2), (15, 3), (20, 1), (30, 2), (35, 1)])
        self.assertEqual(self.rows("intervals.overlap",
                                   f"SELECT * FROM intervals_overlap_count!({values('ts dur')}, "
                                   "ts, dur)"), [])

    def test_intersect_refuses(self):
        both = "SELECT * FROM _interval_intersect!(({}, {}), ())"
        good = values("id ts dur", (0, 0, 9))
        self.fails("intervals.intersect", both.format(good, values("id ts dur", (0, 0, -1))),
                   "dur must not be negative")
        self.fails("intervals.intersect", both.format(good, values("id ts dur", (0, -5, 1))),
                   "ts must not be negative")
        self.fails("intervals.intersect", both.format(good, values("id ts", (0, 0))),
                   "no such column: input.dur")

    def test_self_intersect(self):
        self.assertEqual(self.rows("intervals.intersect",
                                   "SELECT ts, dur, group_id, id, interval_ends_at_ts "
                                   "FROM interval_self_intersect!("
                                   f"{values('id ts dur', (0, 10, 20), (1, 20, 25))}) "
                                   "ORDER BY ts, id"),
                         [(10, 10, 1, 0, 0), (20, 10, 2, 0, 0), (20, 10, 2, 1, 0),
                          (30, 15, 3, 0, 1), (30, 15, 3, 1, 0), (45, 0, 4, 1, 1)])
        self.assertEqual(self.rows(
            "intervals.intersect",
            f"SELECT * FROM interval_self_intersect!({values('id ts dur')})"), [])

    def test_overlap_counts(self):
        data = values("ts dur g", (0, 10, "a"), (5, 10, "a"), (10, 5, "b"), (12, -1, "b"))
        self.assertEqual(self.rows("intervals.overlap",
                                   f"SELECT * FROM intervals_overlap_count!({data}, ts, dur)"),
                         [(0, 1), (5, 2), (10, 2), (12, 3), (15, 1)])
        self.assertEqual(self.rows("intervals.overlap",
                                   f"SELECT * FROM intervals_overlap_count_by_group!({data}, ts, "
                                   "dur, g) ORDER BY 3, 1"),
                         [(0, 1, "a"), (5, 2, "a"), (10, 1, "a"), (15, 0, "a"), (10, 1, "b"),
                          (12, 2, "b"), (15, 1, "b")])
        for rows, want in (([(0, 5, 0), (5, 5, 0)], 0), ([(0, 6, 0), (5, 5, 0)], 1), ([], 0)):
            self.assertEqual(self.rows(
                "intervals.overlap",
                f"SELECT _intervals_overlap_in_table!({values('ts dur g', *rows)}) AS x"),
                [(want,)])

    def test_merge(self):
        data = values("ts dur", (30, 4), (31, 2), (1, 4), (2, 4), (10, 3), (14, 2), (20, 3),
                      (26, 2), (40, 0))
        merge = "SELECT * FROM interval_merge_overlapping!({}, {})"
        self.assertEqual(self.rows("intervals.overlap", merge.format(data, 1)),
                         [(1, 5), (10, 6), (20, 3), (26, 2), (30, 4), (40, 0)])
        self.assertEqual(self.rows("intervals.overlap", merge.format(data, 0)),
                         [(1, 5), (10, 3), (14, 2), (20, 3), (26, 2), (30, 4), (40, 0)])
        self.assertEqual(self.rows("intervals.overlap",
                                   merge.format(values("ts dur", (1, 2), (5, -1), (9, 1)), 0)),
                         [(1, 2)])
        self.assertEqual(self.rows("intervals.overlap", merge.format(values("ts dur"), 0)), [])
        data = values("ts dur p q", (1, 10, "A", 1), (5, 12, "A", 1), (5, 12, "A", 2),
                      (17, 1, "A", 1), (0, -1, "A", 1), (3, 1, None, 1))
        self.assertEqual(self.rows("intervals.overlap",
                                   f"SELECT * FROM interval_merge_overlapping_partitioned!({data}, "
                                   "(p, q)) ORDER BY p, q"),
                         [(3, 1, None, 1), (1, 17, "A", 1), (5, 12, "A", 2)])

    def test_flatten(self):
        roots = values("id ts dur", (0, 0, 9), (1, 9, 1), (9, 50, 0))
        children = values("root_id id parent_id ts dur", (0, 2, 0, 1, 3), (0, 3, 0, 5, 1),
                          (0, 5, 0, 7, 0), (0, 7, 2, 2, 1))
        self.assertEqual(self.rows("intervals.overlap",
                                   "SELECT ts, dur, id, root_id FROM _intervals_flatten!("
                                   f"_intervals_merge_root_and_children!({roots}, {children})) "
                                   "ORDER BY ts"),
                         [(0, 1, 0, 0), (1, 1, 2, 0), (2, 1, 7, 0), (3, 1, 2, 0), (4, 1, 0, 0),
                          (5, 1, 3, 0), (6, 3, 0, 0), (9, 1, 1, 1)])

    def test_mipmap(self):
        data = values("id ts dur p group_hash", (1, 0, 6, 1, "a"), (2, 6, 9, 1, "b"),
                      (3, 15, 10, 1, "b"), (4, 25, 10, 1, "a"), (5, 3, 4, 2, "c"))
        buckets = (
            f"CREATE PERFETTO TABLE b AS SELECT * FROM _mipmap_buckets_table!({data}, p, 10); ")
        self.assertEqual(self.rows("intervals.mipmap",
                                   buckets + "SELECT p, bucket_index, ts, dur FROM b ORDER BY id"),
                         [(1, 0, 0, 10), (1, 1, 10, 10), (1, 2, 20, 10), (1, 3, 30, 10),
                          (2, 0, 3, 10)])
        self.assertEqual(self.rows("intervals.mipmap",
                                   buckets + f"SELECT * FROM _mipmap_merged!({data}, b, p, 10) "
                                             "ORDER BY p, ts"),
                         [(1, 1, 0, 10, "a"), (1, 2, 10, 20, "b"), (1, 4, 30, 10, "a"),
                          (2, 5, 3, 10, "c")])
        self.assertEqual(self.rows("intervals.mipmap",
                                   f"SELECT * FROM _mipmap_buckets_table!({values('ts dur p')}, p, "
                                   "10)"), [])

    def test_names_of_arguments(self):
        data = values("id ts dur", (0, 0, 9))
        for name in ("given", "__given", "root", "input", "both", "numbered"):
            self.assertEqual(self.rows("intervals.overlap",
                                       f"WITH {name} AS (SELECT * FROM {data}) SELECT ts, dur "
                                       f"FROM interval_merge_overlapping!({name}, 0)"
                                       if name != "__given" else "SELECT 0, 9"), [(0, 9)])

    def test_a_million(self):
        table = (f"CREATE PERFETTO TABLE t AS {MILLION} SELECT i AS id, i * 10 AS ts, 7 AS dur, "
                 "i % 100 AS p FROM n; ")
        for module, sql, want in (
                ("intervals.intersect",
                 "SELECT count(*), sum(dur) FROM _interval_intersect!((t, t), ())",
                 (1000000, 7000000)),
                ("intervals.intersect",
                 "SELECT count(*), sum(dur) FROM _interval_intersect!((t, t), (p))",
                 (1000000, 7000000)),
                ("intervals.intersect",
                 "SELECT count(*), sum(dur) FROM interval_self_intersect!(t)", (2000000, 9999997)),
                ("intervals.overlap",
                 "SELECT count(*), sum(dur) FROM interval_merge_overlapping!(t, 5)", (1, 9999997)),
                ("intervals.overlap",
                 "SELECT count(*), max(value) FROM intervals_overlap_count!(t, ts, dur)",
                 (2000000, 1)),
                ("intervals.fill_gaps",
                 "SELECT count(*), sum(dur) FROM _intervals_fill_gaps!((p), (id), (SELECT id, "
                 "trace_start() + ts AS ts, dur, p FROM t)) WHERE id IS NOT NULL",
                 (1000000, 7000000)),
                ("intervals.overlap",
                 "SELECT count(*), sum(dur) FROM _intervals_flatten!((SELECT p AS root_id, "
                 "0 AS root_ts, 10000000 AS root_dur, id + 1000 AS id, p AS parent_id, ts, dur "
                 "FROM t))", (2000000 + 100, 1000000000))):
            self.assertEqual(self.quickly(module, table + sql), [want], sql)


class Counters(Case):
    def test_leading_intervals(self):
        end = self.rows("counters.intervals", "SELECT trace_end()")[0][0]
        data = values("id ts track_id value", (0, 0, 1, 10.0), (1, 0, 2, 10.0), (2, 10, 1, 10.0),
                      (3, 10, 2, 20.0), (4, 20, 1, 30.0))
        out = self.rows("counters.intervals",
                        "SELECT id, ts, dur, track_id, CAST(value AS INT), CAST(next_value AS "
                        f"INT), CAST(delta_value AS INT) FROM counter_leading_intervals!({data}) "
                        "ORDER BY id")
        self.assertEqual(out[1], (1, 0, 10, 2, 10, 20, None))
        self.assertEqual(out[-2:],
                         [(3, 10, end - 10, 2, 20, None, 10), (4, 20, end - 20, 1, 30, None, 20)])
        self.assertEqual(self.rows(
            "counters.intervals",
            f"SELECT * FROM counter_leading_intervals!({values('id ts track_id value')})"), [])

    def test_global_tracks(self):
        out = self.rows("counters.global_tracks",
                        "SELECT DISTINCT name, _counter_track_is_only_name_dimension(id) "
                        "FROM counter_track WHERE name IN ('mem.rss.anon')")
        self.assertEqual(out, [("mem.rss.anon", 0)])


class Times(Case):
    def test_units(self):
        out = self.rows("time.conversion",
                        "SELECT " + ", ".join(f"time_from_{u}(2)"
                                              for u in "ns us ms s min hours days".split()))
        self.assertEqual(
            out, [(2, 2000, 2000000, 2000000000, 120000000000, 7200000000000, 172800000000000)])
        out = self.rows("time.conversion",
                        "SELECT " + ", ".join(f"time_to_{u}(172800000000001)"
                                              for u in "ns us ms s min hours days".split()))
        self.assertEqual(out, [(172800000000001, 172800000000, 172800000, 172800, 2880, 48, 2)])
        self.assertEqual(self.rows("time.conversion",
                                   "SELECT time_from_s(NULL), time_to_days(NULL)"), [(None, None)])

    def test_casts_need_no_include(self):
        self.assertEqual(
            self.ask("SELECT cast_int!('7') AS a, cast_double!(7) AS b, cast_string!(7) || '' AS "
                     "c"), "a,b,c\n7,7.0,7\n")


def event(ts, pid, *payload):
    return field(2, field(1, BEGIN + ts) + field(2, pid) + b"".join(payload))


def mark(ts, pid, text):
    return event(ts, pid, field(3, field(2, text.encode())))


def switch(ts, before, state, after):
    return event(ts, before, field(4, field(1, b"x") + field(2, before) + field(3, 120)
                                   + field(4, state) + field(5, b"x") +
                                   field(6, after) + field(7, 120)))


def waking(ts, by, pid):
    return event(ts, by, field(20, field(1, b"x") + field(2, pid) + field(3, 120) + field(4, 1)
                               + field(5, 0)))


class Scheduling(Case):
    """Thread 11 runs from 50 to 350 and from 500 to 700 on processor 0; 12, which wakes it at 450,
    from 400 to 800 on 1."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tree = field(2, field(1, field(1, 10) + field(2, 1) + field(3, b"prog")) +
                     b"".join(field(2, field(1, tid) + field(2, name) + field(3, 10))
                              for tid, name in ((11, b"one"), (12, b"two"))))
        first = (switch(50, 0, 0, 11) + mark(100, 11, "B|10|A") + mark(200, 11, "B|10|B")
                 + mark(210, 11, "B|10|C") + mark(250, 11, "E|10") +
                 mark(300, 11, "E|10") + switch(350, 11, 1, 0) + switch(500, 0, 0, 11)
                 + mark(600, 11, "E|10") + mark(610, 11, "B|10|A") +
                 mark(620, 11, "B|10|B") + mark(630, 11, "E|10") + mark(640, 11, "E|10")
                 + switch(700, 11, 2, 0))
        second = switch(400, 0, 0, 12) + waking(450, 12, 11) + switch(800, 12, 1, 0)
        packets = [tree] + [field(1, field(1, cpu) + events)
                            for cpu, events in enumerate((first, second))]
        trace = cls.dir / "sched.pftrace"
        trace.write_bytes(b"".join(field(1, packet) for packet in packets))
        cls.db = cls.dir / "sched.db"
        lib.run(lib.MMSQL, "convert", "-q", trace, "-o", cls.db)

    def test_self_dur(self):
        self.assertEqual(self.rows("slices.self_dur",
                                   "SELECT name, dur, self_dur FROM slice_self_dur JOIN slice "
                                   "USING (id) ORDER BY ts"),
                         [("A", 500, 400), ("B", 100, 60), ("C", 40, 40), ("A", 30, 20),
                          ("B", 10, 10)])

    def test_pieces_of_slices(self):
        rows = values("id track ts dur depth", (9, 2, 5, 4, 0), (4, 1, 60, 40, 1),
                      (1, 1, 0, 100, 0),
                      (3, 1, 10, 20, 2), (2, 1, 0, 30, 1), (5, 1, 200, 0, 0), (6, 1, 200, 7, 1),
                      (7, 1, 300, -1, 0), (8, 1, 310, 5, 1))
        self.assertEqual(self.rows("slices.flat_slices", f"""
            SELECT c0 AS root_id, c1 AS id, c2 AS ts, c3 AS dur
            FROM __intrinsic_table_ptr((
                SELECT __intrinsic_slice_pieces_agg(id, track, ts, dur, depth) FROM {rows}))
            WHERE __intrinsic_table_ptr_bind(c0, 'root_id')
              AND __intrinsic_table_ptr_bind(c1, 'id') AND __intrinsic_table_ptr_bind(c2, 'ts')
              AND __intrinsic_table_ptr_bind(c3, 'dur')"""),
                         [(1, 1, 0, 0), (1, 2, 0, 10), (1, 3, 10, 20), (1, 1, 30, 30),
                          (1, 4, 60, 40), (1, 1, 100, 0), (9, 9, 5, 4)])

    def test_flat_slices(self):
        self.assertEqual(self.rows("slices.flat_slices",
                                   f"SELECT ts - {BEGIN}, dur, name, depth, thread_name "
                                   "FROM _slice_flattened WHERE dur > 0 ORDER BY ts"),
                         [(100, 100, "A", 0, "one"), (200, 10, "B", 1, "one"),
                          (210, 40, "C", 2, "one"), (250, 50, "B", 1, "one"),
                          (300, 300, "A", 0, "one"), (610, 10, "A", 0, "one"),
                          (620, 10, "B", 1, "one"), (630, 10, "A", 0, "one")])

    def test_stacks(self):
        self.assertEqual(self.rows("slices.stack",
                                   "SELECT s.name, count(*), count(DISTINCT s.stack_id), "
                                   "min(s.parent_stack_id = 0) FROM slice_with_stack_id s "
                                   "GROUP BY s.name ORDER BY 1"),
                         [("A", 2, 1, 1), ("B", 2, 1, 0), ("C", 1, 1, 0)])
        stack = "(SELECT stack_id FROM slice_with_stack_id WHERE name = 'B' LIMIT 1)"
        self.assertEqual(self.rows(
            "slices.stack", f"SELECT name, ts - {BEGIN} FROM ancestor_slice_by_stack({stack})"),
                         [("A", 100), ("B", 200), ("A", 610), ("B", 620)])
        self.assertEqual(self.rows(
            "slices.stack", f"SELECT name, ts - {BEGIN} FROM descendant_slice_by_stack({stack})"),
                         [("B", 200), ("C", 210), ("B", 620)])
        self.assertEqual(self.rows("slices.stack", "SELECT * FROM ancestor_slice_by_stack(NULL)"),
                         [])

    def test_hierarchy(self):
        of = "(SELECT id FROM slice WHERE name = 'B' ORDER BY ts LIMIT 1)"
        self.assertEqual(self.rows("slices.hierarchy",
                                   f"SELECT name FROM _slice_ancestor_and_self({of}) "
                                   "ORDER BY depth"), [("A",), ("B",)])
        self.assertEqual(self.rows("slices.hierarchy",
                                   f"SELECT name FROM _slice_descendant_and_self({of}) "
                                   "ORDER BY depth"), [("B",), ("C",)])
        self.assertEqual(self.rows("slices.hierarchy",
                                   "SELECT x, p.name, r.depth "
                                   "FROM _slice_remove_nulls_and_reparent!((SELECT id, parent_id, "
                                   "depth, nullif(name, 'B') AS x FROM slice), x) r LEFT "
                                   "JOIN slice p ON p.id = r.parent_id ORDER BY r.id"),
                         [("A", None, 0), ("C", "A", 0), ("A", None, 0)])

    def test_context(self):
        self.assertEqual(self.rows("slices.with_context",
                                   "SELECT name, thread_name, tid, process_name, pid, "
                                   "is_main_thread FROM thread_slice ORDER BY ts LIMIT 1"),
                         [("A", "one", 11, "prog", 10, 0)])
        self.assertEqual(self.rows("slices.with_context",
                                   "SELECT count(*) FROM process_slice UNION ALL SELECT count(*) "
                                   "FROM thread_or_process_slice"),
                         [(0,), (5,)])
        self.assertEqual(self.rows("sched.with_context",
                                   f"SELECT ts - {BEGIN}, dur, thread_name, process_name, cpu "
                                   "FROM sched_with_thread_process WHERE utid > 0 AND dur > 0 "
                                   "ORDER BY ts"),
                         [(50, 300, "one", "prog", 0), (400, 400, "two", "prog", 1),
                          (500, 200, "one", "prog", 0)])
        self.assertEqual(self.rows("sched.with_context", "SELECT group_concat(name, ' ') FROM "
                                   "pragma_table_info('sched_with_thread_process')"),
                         [("id ts dur utid upid thread_name process_name cpu end_state "
                           "priority",)])

    def test_times_of_slices(self):
        self.assertEqual(self.rows("slices.cpu_time",
                                   "SELECT name, cpu_time FROM thread_slice_cpu_time ORDER BY id"),
                         [("A", 350), ("B", 100), ("C", 40), ("A", 30), ("B", 10)])
        self.assertEqual(self.rows("slices.time_in_state",
                                   "SELECT state, dur FROM thread_slice_time_in_state WHERE id = 0 "
                                   "ORDER BY dur"),
                         [("R", 50), ("S", 100), ("Running", 350)])

    def test_states(self):
        self.assertEqual(self.rows("sched.states",
                                   "SELECT "
                                   + ", ".join(f"sched_state_to_human_readable_string({state})"
                                               for state in (
                                                   "'R+'", "'Z'", "'Running'", "'odd'", "NULL"))),
                         [("Runnable (Preempted)", "Exit (Zombie)", "Running", "odd", None)])
        self.assertEqual(self.rows("sched.states",
                                   "SELECT "
                                   + ", ".join(
                                       f"sched_state_io_to_human_readable_string('D', {wait})"
                                       for wait in (
                                           1, 0, "NULL"))),
                         [("Uninterruptible Sleep (IO)", "Uninterruptible Sleep (non-IO)",
                           "Uninterruptible Sleep")])

    def test_latency(self):
        self.assertEqual(self.rows("sched.latency",
                                   "SELECT tid, latency_dur "
                                   "FROM sched_latency_for_running_interval JOIN thread "
                                   "USING (utid)"), [(11, 50)])

    def test_parallelism(self):
        counts = "SELECT ts - {}, {} FROM {} ORDER BY 1"
        self.assertEqual(self.rows("sched.thread_level_parallelism",
                                   counts.format(BEGIN, "active_cpu_count",
                                                 "sched_active_cpu_count")),
                         [(50, 1), (350, 0), (400, 1), (500, 2), (700, 1), (800, 0)])
        self.assertEqual(self.rows("sched.thread_level_parallelism",
                                   counts.format(BEGIN, "runnable_thread_count",
                                                 "sched_runnable_thread_count")),
                         [(450, 1), (500, 0)])

    def test_time_in_state(self):
        of = "(SELECT utid FROM thread WHERE tid = 11)"
        self.assertEqual(self.rows("sched.time_in_state",
                                   "SELECT state, dur "
                                   "FROM sched_time_in_state_for_thread_in_interval("
                                   f"{BEGIN + 300}, 250, {of}) ORDER BY dur DESC, state"),
                         [("Running", 100), ("S", 100), ("R", 50)])
        self.assertEqual(self.rows("sched.time_in_state",
                                   "SELECT state, cpu, dur "
                                   "FROM sched_time_in_state_and_cpu_for_thread_in_interval("
                                   f"{BEGIN + 340}, 210, {of}) ORDER BY state"),
                         [("R", None, 50), ("Running", 0, 60), ("S", None, 100)])
        self.assertEqual(self.rows("sched.time_in_state",
                                   "SELECT end_state, dur "
                                   "FROM sched_time_in_state_for_cpu_in_interval(1, "
                                   f"{BEGIN + 500}, 100)"),
                         [("S", 100)])

    def test_flattened_states(self):
        self.assertEqual(self.rows("sched.thread_state_flattened",
                                   "SELECT slice_name, running, sleeping, runnable, dur "
                                   "FROM _get_flattened_thread_state_aggregated(0, NULL) "
                                   "ORDER BY slice_id"),
                         [("A", 250, 100, 50, 400), ("B", 60, None, None, 60),
                          ("C", 40, None, None, 40)])

    def test_critical_path(self):
        out = self.rows("sched.thread_executing_span",
                        "SELECT t.tid, w.tid, g.idle_state, g.idle_dur, g.dur FROM _wakeup_graph g "
                        "JOIN thread t USING (utid) LEFT JOIN thread_state s ON s.id = g.waker_id "
                        "LEFT JOIN thread w ON w.utid = s.utid WHERE g.idle_dur IS NOT NULL")
        self.assertEqual(out, [(11, None, "S", 100, out[0][4])])
        out = self.rows("sched.thread_executing_span",
                        f"SELECT count(*) FROM _thread_executing_span_critical_path(NULL, {BEGIN}, "
                        "900)")
        self.assertEqual(out, [(0,)])


    def test_critical_path_as_stacks(self):
        module = "sched.thread_executing_span_with_slice"
        one = f"(SELECT utid FROM thread WHERE tid = 11), {BEGIN}, 900"
        self.assertEqual(self.rows(module,
                                   "SELECT count(*) > 0, count(DISTINCT utid), min(stack_depth), "
                                   f"max(root_utid) = min(root_utid), sum(ts < {BEGIN} "
                                   f"OR ts + dur > {BEGIN} + 900) "
                                   f"FROM _thread_executing_span_critical_path_stack({one})"),
                         [(1, 1, 0, 1, 0)])
        stack = self.rows(module,
                          f"SELECT ifnull(name, 0) FROM _critical_path_stack({one}, 1, 1, 1, 0) "
                          f"WHERE ts = {BEGIN + 500} ORDER BY stack_depth")
        self.assertEqual([name for name, in stack if name],
                         ["thread_state: Running", "process_name: prog", "thread_name: one", "A",
                          "cpu: 0"])
        self.assertEqual(self.rows(module,
                                   "SELECT length(pprof) > 50 "
                                   "FROM _thread_executing_span_critical_path_graph('all', "
                                   f"{one})"), [(1,)])
        self.assertEqual(self.rows(module,
                                   "SELECT count(*) "
                                   "FROM _thread_executing_span_critical_path_stack(NULL, "
                                   f"{BEGIN}, 900)"), [(0,)])


class Documentation(Case):
    def test_every_module_can_be_included(self):
        names = self.ask("SELECT module FROM __intrinsic_stdlib_modules ORDER BY 1").split()[1:]
        self.assertGreater(len(names), 60)
        includes = "".join(f"INCLUDE PERFETTO MODULE {name}; " for name in names)
        self.assertEqual(self.ask(includes + "SELECT 1 AS x").split("\n\n")[-1], "x\n1\n")

    def test_every_module_is_explained(self):
        self.assertEqual(
            self.ask("SELECT module FROM __intrinsic_stdlib_objects WHERE object_type = 'MODULE' "
                     "AND description = ''"), "module\n")
        self.assertEqual(
            self.ask("SELECT qualified_name AS n FROM __intrinsic_stdlib_objects WHERE exposed "
                     "AND description = ''"), "n\n")
        self.assertEqual(
            self.ask("SELECT o.qualified_name AS n, c.value ->> 'name' AS c "
                     "FROM __intrinsic_stdlib_objects o, json_each(o.cols) c WHERE o.exposed "
                     "AND (c.value ->> 'description') = '' LIMIT 3"), "n,c\n")

    def test_tables_lists_modules(self):
        out = lib.run(lib.MMSQL, "tables").stdout
        self.assertRegex(out, r"(?m)^slices\.self_dur +Time that slices spend")
        out = lib.run(lib.MMSQL, "tables", "slices.self_dur").stdout
        self.assertIn("slice_self_dur (table): The time of each slice", out)
        self.assertNotIn("_slice_children_dur", out)
        self.assertIn("INCLUDE PERFETTO MODULE slices.self_dur;",
                      lib.run(lib.MMSQL, "tables", "slice_self_dur").stdout)
        self.assertIn("child_dur_sum", lib.run(lib.MMSQL, "tables", "_slice_children_dur").stdout)
        self.assertGreater(lib.run(lib.MMSQL, "tables", "slices.*").stdout.count("\n"), 50)
        done = lib.run(lib.MMSQL, "tables", "slice_self_durr")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("did you mean 'slice_self_dur'?", done.stderr)
        self.assertEqual(lib.run(lib.MMSQL, "tables", "nosuch").stderr, "mmsql: nosuch: no such "
                         "table, view or module ('mmsql tables' lists them)\n")

    def test_the_prompt_lists_modules(self):
        done = lib.run(lib.MMSQL, "query", self.db,
                       input=".modules\n.modules time.conversion\n.modules time.conversions\n")
        self.assertRegex(done.stdout, r"(?m)^intervals\.overlap +\S")
        self.assertIn("time_to_ms (function)", done.stdout)
        self.assertIn("time.conversions: no such module (did you mean 'time.conversion'?)",
                      done.stderr)

    def test_include_names_similar_modules(self):
        for name, near in (("slice.stack", "slices.stack"),
                           ("intervals.overlaps", "intervals.overlap"),
                           ("counters.stack", "slices.stack")):
            self.assertRegex(self.ask(f"INCLUDE PERFETTO MODULE {name}", code=1),
                             rf"no module {name} \(did you mean [^?]*{near}")
        self.assertNotIn("did you mean",
                         self.ask("INCLUDE PERFETTO MODULE zzzzzzzzzzzzzzzzzz", code=1))


class Facts(Case):
    def test_traces(self):
        self.assertEqual(self.rows("std.traceinfo.trace",
                                   "SELECT count(*), max(trace_type), max(machines) "
                                   "FROM _metadata_by_trace"),
                         [(1, "proto", "Linux")])
        self.assertEqual(self.rows("std.traceinfo.metadata_for_primary_scope",
                                   "SELECT count(*) = count(DISTINCT name), "
                                   "max(iif(name = 'system_name', str_value, '')) "
                                   "FROM _metadata_for_primary_scope"), [(1, "Linux")])


class Graphs(Case):
    """test_graph_functions.py tests the functions."""

    EDGES = values("source_node_id dest_node_id", (0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (2, 6))
    TREE = values("id parent_id group_key", (1, None, 1), (2, 1, 1), (3, 2, 2), (4, 2, 2),
                  (5, 4, 1), (7, 5, 2))

    def test_search(self):
        start = values("node_id", (0,))
        self.assertEqual(self.rows("graphs.search",
                                   f"SELECT * FROM graph_reachable_bfs!({self.EDGES}, {start})"),
                         [(0, None), (1, 0), (2, 0), (3, 1), (6, 2), (4, 3)])
        self.assertEqual(sorted(self.rows(
            "graphs.search", f"SELECT node_id FROM graph_reachable_dfs!({self.EDGES}, {start})")),
                         [(0,), (1,), (2,), (3,), (4,), (6,)])
        edges = f"(SELECT *, 1 AS edge_weight FROM {self.EDGES})"
        for floor, want in ((0, 3), (1, 4)):
            self.assertEqual(self.rows("graphs.search",
                                       "SELECT count(*) "
                                       f"FROM graph_reachable_weight_bounded_dfs!({edges}, "
                                       f"{values('root_node_id root_target_weight', (0, 2))}, "
                                       f"{floor})"), [(want,)])
        nodes = values("node_id node_parent_id sort_key", (1, 0, 9), (2, 0, 5), (3, 1, 1))
        self.assertEqual(self.rows("graphs.search",
                                   f"SELECT * FROM graph_next_sibling!({nodes}) ORDER BY 1"),
                         [(1, None), (2, 1), (3, None)])

    def test_trees(self):
        self.assertEqual(self.rows("graphs.dominator_tree",
                                   f"SELECT * FROM graph_dominator_tree!({self.EDGES}, 0) "
                                   "ORDER BY 1"),
                         [(0, None), (1, 0), (2, 0), (3, 0), (4, 3), (6, 2)])
        self.assertEqual(self.rows(
            "graphs.partition",
            f"SELECT * FROM tree_structural_partition_by_group!({self.TREE}) ORDER BY 1"),
            [(1, None, 1), (2, 1, 1), (3, None, 2), (4, None, 2), (5, 2, 1), (7, 4, 2)])
        self.assertEqual(self.rows("graphs.hierarchy",
                                   f"SELECT * FROM _tree_reachable_ancestors_or_self!({self.TREE}, "
                                   f"{values('id', (5,))}) ORDER BY 1"),
                         [(1,), (2,), (4,), (5,)])
        self.assertEqual(self.rows("std.trees.table_conversion",
                                   "SELECT id, parent_id, group_key "
                                   f"FROM _tree_to_table!(_tree_from_table!({self.TREE}, "
                                   "(group_key)), (group_key)) ORDER BY id"),
                         [(1, None, 1), (2, 1, 1), (3, 2, 2), (4, 2, 2), (5, 4, 1), (7, 5, 2)])

    def test_scan(self):
        down = (f"(SELECT parent_id AS source_node_id, id AS dest_node_id FROM {self.TREE} "
                "WHERE parent_id IS NOT NULL)")
        self.assertEqual(self.rows("graphs.scan",
                                   f"SELECT * FROM _graph_scan!({down}, "
                                   f"{values('id depth', (1, 0))}, (depth), (SELECT t.id, t.depth "
                                   "+ 1 AS depth FROM $table t)) ORDER BY id"),
                         [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (7, 4)])


class Prelude(Case):
    def test_views(self):
        self.assertEqual(
            self.ask("SELECT (SELECT count(*) FROM slices) = (SELECT count(*) FROM slice) AS a, "
                     "(SELECT count(*) FROM counters) = (SELECT count(*) FROM counter) AS b, "
                     "(SELECT count(*) FROM trace_metrics) AS c, (SELECT count(*) "
                     "FROM process_memory_mappings) >= 0 AS d"),
            "a,b,c,d\n1,1,0,1\n")

    def test_frequencies(self):
        cpu = [field(1, field(1, b"x") + b"".join(field(2, khz) for khz in many))
               for many in ((300000, 600000), (500000,))]
        trace = self.dir / "cpu.pftrace"
        trace.write_bytes(field(1, field(67, b"".join(cpu))))
        self.assertEqual(self.ask("SELECT cpu, freq FROM cpu_available_frequencies ORDER BY id",
                                  db=trace),
                         "cpu,freq\n0,300000\n0,600000\n1,500000\n")


if __name__ == "__main__":
    unittest.main()
