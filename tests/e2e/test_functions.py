# SPDX-License-Identifier: Apache-2.0
"""Functions of PerfettoSQL: windows, patterns, texts, hashes, JSON of arg sets, clocks, tables,
layout, flows."""
import json
import resource
import unittest

import lib
import test_query

MILLION = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)"


class Case(test_query.Case):
    def rows(self, sql, db=None):
        """The rows of the last result set."""
        out = json.loads(self.ask(sql, "--json", db=db) or "[]")
        if out and isinstance(out[0], list):
            out = out[-1]
        return [tuple(row.values()) for row in out]

    def one(self, expression, db=None):
        return self.rows(f"SELECT {expression} AS x", db)[0][0]

    def fails(self, expression, why):
        self.assertIn(why, self.ask(f"SELECT {expression}", code=1), expression)

    def within(self, seconds, sql):
        """Returns the rows. Asserts that the processor time, which other programs do not change, is
        below the limit."""
        begin = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        rows = self.rows(sql)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begin, seconds, sql)
        return rows

    def made(self, name, text):
        trace = self.dir / name
        trace.write_bytes(lib.encode(text))
        return trace


class Windows(Case):
    def last(self, window, values="(1, 1), (2, NULL), (3, 3), (4, NULL), (5, NULL)"):
        return [v for _, v in self.rows(
            f"WITH t(id, v) AS (VALUES {values}) SELECT id, last_non_null(v) OVER ({window}) AS x "
            "FROM t ORDER BY id")]

    def test_last_value(self):
        self.assertEqual(self.last("ORDER BY id"), [1, 1, 3, 3, 3])
        self.assertEqual(self.last("ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"),
                         [1, 1, 3, 3, None])
        self.assertEqual(self.last("ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING"),
                         [3, 3, None, None, None])
        self.assertEqual(self.last("PARTITION BY id % 2 ORDER BY id"), [1, None, 3, None, 3])
        self.assertEqual(self.last("ORDER BY id", "(1, NULL), (2, 'a'), (3, 0.5), (4, x'00')")[:3],
                         [None, "a", 0.5])
        self.assertEqual(self.rows("SELECT last_non_null(1) OVER () AS x WHERE 0"), [])
        self.assertEqual(self.rows("SELECT last_non_null(column1) AS x FROM (VALUES (1), (NULL))"),
                         [(1,)])

    def layout(self, *spans, window="ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"):
        values = ", ".join(str(span) for span in spans)
        return (f"WITH t(ts, dur) AS (VALUES {values}) SELECT ts, internal_layout(ts, dur) OVER "
                f"({window}) AS line FROM t")

    def test_layout(self):
        lines = lambda *spans: [line for _, line in self.rows(self.layout(*spans))]
        self.assertEqual(lines((1, 4), (2, 2), (3, 5), (6, 1), (6, 1), (6, 1)), [0, 1, 2, 0, 1, 3])
        self.assertEqual(lines((1, 4), (2, 0), (3, 0), (5, 0)), [0, 1, 1, 0])
        self.assertEqual(lines((1, -1), (2, -1), (3, 5), (8, 1)), [0, 1, 2, 2])
        self.assertEqual(lines((9223372036854775800, 100), (9223372036854775806, 1)), [0, 1])

    def test_layout_errors(self):
        for sql, why in ((self.layout((1, -2)), "below -1"), (self.layout((-1, 2)), "negative"),
                         (self.layout(("a", 2)), "whole numbers"),
                         (self.layout((1, 2), (2, 2),
                                      window="ROWS BETWEEN UNBOUNDED PRECEDING "
                                             "AND UNBOUNDED FOLLOWING"), "CURRENT"),
                         (self.layout((1, 2), (2, 2), (3, 3),
                                      window="ORDER BY ts ROWS BETWEEN 1 PRECEDING "
                                             "AND CURRENT ROW"), "first row"),
                         (self.layout((3, 2), (2, 2),
                                      window="ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
                          "not sorted")):
            self.assertIn(why, self.ask(sql, code=1), sql)

    def test_value_at_max_ts(self):
        value = lambda rows: self.rows(
            f"SELECT value_at_max_ts(column1, column2) AS x FROM (VALUES {rows})")[0][0]
        self.assertEqual(value("(1, 10), (3, 30), (2, 20)"), 30)
        self.assertEqual(value("(1, 0.5), (1, 1.5)"), 1.5)
        self.assertEqual(value("(-5, -7)"), -7)
        self.assertIsNone(self.rows("SELECT value_at_max_ts(1, 2) AS x WHERE 0")[0][0])
        self.fails("value_at_max_ts('a', 1)", "whole number")
        self.fails("value_at_max_ts(1, 'a')", "a number")

    def test_a_million_rows(self):
        got = self.within(
            20, MILLION + "SELECT sum(x) AS s FROM (SELECT last_non_null(iif(i % 2, i, NULL)) OVER "
                          "(ORDER BY i ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS x FROM n)")
        self.assertEqual(got, [(2 * sum(range(1, 1000000, 2)),)])
        got = self.within(20,
                          MILLION + "SELECT max(x) AS m FROM (SELECT internal_layout(i, 1 + i * "
                                    "7919 % 1000) OVER (ORDER BY i ROWS BETWEEN UNBOUNDED "
                                    "PRECEDING AND CURRENT ROW) AS x FROM n)")
        self.assertGreater(got[0][0], 100)


class Patterns(Case):
    def test_flags(self):
        for expression, want in (("regexp('malloc', 'Malloc')", 0),
                                 ("regexp('malloc', 'Malloc', 'i')", 1),
                                 ("regexp('malloc', 'Malloc', 'c')", 0),
                                 ("regexp('malloc', 'Malloc', 'ic')", 0),
                                 ("regexp('malloc', 'Malloc', 'ci')", 1),
                                 ("regexp('a', 'a', '')", 1),
                                 ("__intrinsic_regexp('a', 'A')", 0),
                                 ("__intrinsic_regexp_with_flags('a', 'A', 'i')", 1)):
            self.assertEqual(self.one(expression), want, expression)
        self.assertIsNone(self.one("regexp('a', NULL, 'i')"))
        self.assertIsNone(self.one("regexp('a', 'a', NULL)"))
        self.fails("regexp('a', 'a', 'x')", "flags are i")

    def test_extract(self):
        for text, pattern, want in (("ac", "a(b)?c", "ac"), ("abc", "a(b)?c", "b"),
                                    ("aabb", "a(b*)", "a"), ("foobar", "foo|foobar", "foo"),
                                    ("<a><b>", "<(.*?)>", "a"), ("Xyz", "(?i)x", "X"),
                                    ("ab", "c", None), ("", "a*", "")):
            self.assertEqual(self.one(f"regexp_extract('{text}', '{pattern}')"), want, pattern)
        self.assertIsNone(self.one("regexp_extract(NULL, 'a')"))
        self.assertIsNone(self.one("regexp_extract('a', NULL)"))

    def test_replace(self):
        for text, pattern, want in (("abcde", "", "|a|b|c|d|e|"), ("baac", "a*", "|b|c|"),
                                    ("aXbx", "(?i)x", "a|b|"), ("añb", "", "|a|ñ|b|"),
                                    ("", "a", ""), ("", "", "|"), ("a.b", r"\.", "a|b")):
            self.assertEqual(self.one(f"regexp_replace_simple('{text}', '{pattern}', '|')"), want,
                             (text, pattern))
        self.assertIsNone(self.one("regexp_replace_simple('a', 'a', NULL)"))

    def test_the_pattern_of_each_row(self):
        got = self.rows(
            "SELECT column1 REGEXP column2 AS x FROM (VALUES ('ab', 'b$'), ('ab', '^b'), ('ab', "
            "NULL), ('ab', 'A'))")
        self.assertEqual(got, [(1,), (0,), (None,), (0,)])
        self.fails("'a' REGEXP '(?=a)'", "pattern '(?=a)'")

    def test_a_million_rows(self):
        got = self.within(20,
                          MILLION + r"SELECT sum(('kworker/' || i || ':1') REGEXP "
                                    r"'^kworker/\d*7(\d|:)') AS x FROM n")
        self.assertEqual(got[0][0], sum("7" in str(i) for i in range(1, 1000001)))


class Texts(Case):
    def test_unhex(self):
        for text, want in (("0xF", 15), (" \t0Xf\n ", 15), ("0", 0), ("-5", -5),
                           ("7fffffffffffffff", 2**63 - 1), ("-8000000000000000", -2**63)):
            self.assertEqual(self.one(f"unhex('{text}')"), want, text)
            self.assertEqual(self.one(f"__intrinsic_unhex('{text}')"), want, text)
        self.assertIsNone(self.one("unhex(NULL)"))
        for text in ("", " ", "0x", "xyz", "8000000000000000", "1 2", "-"):
            self.fails(f"unhex('{text}')", "hexadecimal")

    def test_strip_hex(self):
        for text, least, want in (("0x1234", 3, "0x<num>"), ("0xabcd", 3, "0x<num>"),
                                  ("12a34", 3, "<num>"), ("Hello 123", 3, "Hello <num>"),
                                  ("abc", 1, "abc"), ("#1 Draw#text", 1, "#<num> Draw#text"),
                                  ("1=22@333-444", 3, "1=22@<num>-<num>"),
                                  ("aaaaaa", 1, "aaaaaa"),
                                  ("data20 100x100", 2, "data<num> <num>x<num>"), ("", 0, "")):
            self.assertEqual(self.one(f"__intrinsic_strip_hex('{text}', {least})"), want, text)
        self.assertIsNone(self.one("__intrinsic_strip_hex(NULL, 1)"))
        self.assertIsNone(self.one("__intrinsic_strip_hex('a', NULL)"))
        for arguments in ("1, 1", "'a', 'b'", "'a', -1"):
            self.fails(f"__intrinsic_strip_hex({arguments})", "at least 0")

    def test_hash(self):
        """FNV-1a of 64 bits over the bytes of the values: known answers of other programs."""
        for arguments, want in (("", 0xcbf29ce484222325), ("'a'", 0xaf63dc4c8601ec8c),
                                ("'foobar'", 0x85944171f73967e8),
                                ("'foo', 'bar'", 0x85944171f73967e8), ("0", 0xa8c7f832281a39c5)):
            self.assertEqual(self.one(f"hash({arguments})") % 2**64, want, arguments)
        self.assertEqual(self.one("hash(1, 'hello', 42)"), 4730678220997103486)
        self.assertEqual(self.one("hash(NULL, 'a') = hash('a')"), 1)

    def test_base64_and_demangle_have_two_names(self):
        self.assertEqual(
            self.one("__intrinsic_base64_encode(x'00ff') || CAST(__intrinsic_base64_decode('YQ==') "
                     "AS TEXT)"), "AP8=a")
        self.assertEqual(self.one(
            "__intrinsic_reverse('abc') || coalesce(__intrinsic_demangle('main'), '-')"), "cba-")

    def test_zstd(self):
        if b"has no libzstd" in lib.MMSQL.read_bytes():
            self.fails("__intrinsic_zstd_compress('a')", "libzstd")
            return
        self.assertEqual(self.one("hex(substr(__intrinsic_zstd_compress('hello'), 1, 4))"),
                         "28B52FFD")
        for value in ("'hello, hello, hello'", "''", "zeroblob(1000000)", "x'00ff00'"):
            self.assertEqual(
                self.one(f"__intrinsic_zstd_decompress(__intrinsic_zstd_compress({value})) = "
                         f"CAST({value} AS BLOB)"), 1, value)
        self.assertEqual(self.one("length(__intrinsic_zstd_compress(zeroblob(1000000))) < 1000"), 1)
        self.assertIsNone(self.one("__intrinsic_zstd_compress(NULL)"))
        self.fails("__intrinsic_zstd_compress(5)", "text or bytes")
        for bad in ("'nonsense'", "x''", "substr(__intrinsic_zstd_compress('hello, hello'), 1, 9)"):
            self.fails(f"__intrinsic_zstd_decompress({bad})", "zstd frame")

    def test_numbers(self):
        for name in ("", "__intrinsic_"):
            self.assertEqual(self.one(f"round({name}ln({name}exp(2)) + {name}sqrt(9), 6)"), 5)
        for expression in ("ln(0)", "ln(-1)", "ln('x')", "exp(NULL)", "sqrt('asd')", "sqrt(-1)",
                           "ln(x'01')"):
            self.assertIsNone(self.one(expression), expression)

    def test_a_million_rows(self):
        got = self.within(20,
                          MILLION + "SELECT count(DISTINCT hash(i, 'x')) AS n, count(DISTINCT "
                                    "__intrinsic_strip_hex('task-' || i, 1)) AS m FROM n")
        self.assertEqual(got, [(1000000, 1)])


def annotation(name, value):
    return f'debug_annotations {{ name: "{name}" {value} }}'


@lib.needs_program("protoc")
class OfTraces(Case):
    def event(self, *annotations, name="x", ts=10):
        return (f'packet {{ trusted_packet_sequence_id: 1 timestamp: {ts} '
                f'track_event {{ track_uuid: 1 name: "{name}" type: TYPE_INSTANT '
                f'{" ".join(annotations)} }} }}')

    def json_of(self, *annotations):
        trace = self.made("json", self.event(*annotations))
        return self.one("__intrinsic_arg_set_to_json(arg_set_id) FROM slice", trace)

    def test_json(self):
        self.assertEqual(self.json_of(annotation("b", 'string_value: "v"'),
                                      annotation("a", "int_value: -42")),
                         '{"debug":{"b":"v","a":-42}}')
        self.assertEqual(self.json_of(annotation("u", "uint_value: 18446744073709551615"),
                                      annotation("t", "bool_value: true"),
                                      annotation("p", "pointer_value: 100"),
                                      annotation("d", "double_value: 0.25"),
                                      annotation("w", "double_value: 3"),
                                      annotation("e", "double_value: 1e300")),
                         '{"debug":{"u":18446744073709551615,"t":true,"p":"0x64","d":0.25,"w":3,'
                         '"e":1e+300}}')
        nested = (
            "dict_entries { name: \"z\" int_value: 3 } dict_entries { name: \"a\" array_values "
            "{ int_value: 1 } array_values { int_value: 2 } }")
        self.assertEqual(self.json_of(annotation("n", nested)), '{"debug":{"n":{"z":3,"a":[1,2]}}}')
        self.assertEqual(self.json_of(
            annotation("s", 'string_value: "q\\"\\\\\\n\\t\\001\\303\\244\\360\\237\\230\\200"')),
                         r'{"debug":{"s":"q\"\\\n\t\u0001\u00e4\ud83d\ude00"}}')

    def test_json_of_nothing(self):
        self.assertIsNone(self.json_of())
        self.assertEqual(self.one("__intrinsic_arg_set_to_json(123456)"), "{}")
        self.fails("__intrinsic_arg_set_to_json('a')", "number of an arg set")

    def test_json_of_many_values(self):
        """A large set makes the small sets after it no slower."""
        many = [annotation(f"k{i}", f"int_value: {i}") for i in range(4000)]
        trace = self.made("many",
                          self.event(*many) + "".join(self.event(annotation("a", f"int_value: {i}"),
                                                                 ts=20 + i) for i in range(2000)))
        got = [json.loads(text) for text, in self.rows(
            "SELECT __intrinsic_arg_set_to_json(arg_set_id) AS j FROM slice ORDER BY ts", trace)]
        self.assertEqual(got[0], {"debug": {f"k{i}": i for i in range(4000)}})
        self.assertEqual(got[1:], [{"debug": {"a": i}} for i in range(2000)])

    def test_packages(self):
        names = (("dyn", 1000), ("com.google.android.gsf", 10001),
                 ("com.google.android.gms", 10001), ("com.android.providers.x", 10002),
                 ("x", 10002),
                 ("y", 10002))
        listed = " ".join(f'packages {{ name: "{name}" uid: {uid} }}' for name, uid in names)
        trace = self.made("packages", f"packet {{ timestamp: 1 packages_list {{ {listed} }} }}")
        for uid, want in ((0, "AID_ROOT"), (1000, "AID_SYSTEM_USER"),
                          (10001, "com.google.android.gms"), (10002, "x"), (1010002, "x"),
                          (10003, "uid=10003"), (9999, "AID_NOBODY"), (50001, "SHARED_GID"),
                          (99000, "ISOLATED_UID"), ("NULL", None)):
            self.assertEqual(self.one(f"_intrinsic_package_lookup({uid})", trace), want, uid)
        self.fails("_intrinsic_package_lookup('a')", "whole number")

    def test_clocks(self):
        """Between the second and the third snapshot, REALTIME is set back from 5 to 3."""
        shots = ((10, 1000), (20, 1012), (30, 1015))
        text = "".join(
            f"packet {{ trusted_packet_sequence_id: 1 clock_snapshot {{ clocks {{ clock_id: 6 "
            f"timestamp: {boot} }} clocks {{ clock_id: 1 timestamp: {real} }} "
            f"clocks {{ clock_id: 3 timestamp: {boot - 5} }} }} }}" for boot, real in shots)
        trace = self.made("clocks", text)
        for ts, want in ((5, 1000), (10, 1000), (15, 1005), (20, 1012), (22, 1014), (25, 1015),
                         (30, 1015), (40, 1025)):
            self.assertEqual(self.one(f"to_realtime({ts})", trace), want, ts)
        self.assertEqual(self.one("__intrinsic_to_monotonic(22)", trace), 17)
        self.assertEqual(self.one("abs_time_str(40)", trace), "1970-01-01T00:00:00.000001025")
        self.assertEqual(self.rows("SELECT to_realtime(NULL) AS a, abs_time_str(NULL) AS b", trace),
                         [(None, None)])
        self.assertIn("whole number", self.ask("SELECT to_realtime('a')", db=trace, code=1))
        none = self.made("none", self.event())
        self.assertEqual(
            self.rows("SELECT to_realtime(5) AS a, to_monotonic(5) AS b, abs_time_str(5) AS c",
                      none), [(None, None, None)])

    def test_metadata(self):
        trace = self.made("meta",
                          'packet { timestamp: 1 trusted_packet_sequence_id: 1 system_info '
                          '{ utsname { sysname: "Linux" machine: "m7" } } }')
        for call in ("extract_metadata('system_machine')",
                     "extract_metadata_for_machine(0, 'system_machine')"):
            self.assertEqual(self.one(call, trace), "m7", call)
        for call in ("extract_metadata('nothing')", "extract_metadata(NULL)",
                     "extract_metadata_for_machine(7, 'system_machine')",
                     "extract_metadata_for_trace(7, 'system_machine')",
                     "extract_exact_metadata(0, 7, 'system_machine')"):
            self.assertIsNone(self.one(call, trace), call)


@lib.needs_program("protoc")
class Slices(Case):
    """A trace with tracks a (4 slices and two below), b and c, and flows."""
    SPANS = (("a", 10, 100, 1), ("a", 20, 50, 2), ("b", 30, 40, 3), ("a", 40, 45, 4),
             ("c", 60, 65, 5), ("b", 70, 90, 6), ("c", 120, 130, 7))
    FLOWS = ((2, 3), (3, 5), (1, 6), (6, 7))  # from a slice to another, by their numbers

    def setUp(self):
        tracks = {"a": 1, "b": 2, "c": 3}
        packets = [(0, f'track_descriptor {{ uuid: {uuid} name: "{name}" }}')
                   for name, uuid in tracks.items()]
        for track, begin, end, number in self.SPANS:
            flows = "".join(f" flow_ids: {i + 1}" for i, pair in enumerate(self.FLOWS)
                            if pair[0] == number)
            ends = "".join(f" terminating_flow_ids: {i + 1}" for i, pair in enumerate(self.FLOWS)
                           if pair[1] == number)
            packets.append((begin,
                            f'track_event {{ type: TYPE_SLICE_BEGIN track_uuid: {tracks[track]} '
                            f'name: "{number}"{flows}{ends} }}'))
            packets.append((end,
                            f"track_event {{ type: TYPE_SLICE_END track_uuid: {tracks[track]} }}"))
        packets.sort(key=lambda packet: packet[0])
        text = "".join(f"packet {{ timestamp: {ts} trusted_packet_sequence_id: 1 {body} }}"
                       for ts, body in packets)
        self.trace = self.made("slices", text)

    def connected(self, name, number):
        sql = (f"SELECT o.name || '-' || i.name AS x FROM slice s JOIN {name}(s.id) f "
               "JOIN slice o ON o.id = f.slice_out JOIN slice i ON i.id = f.slice_in "
               f"WHERE s.name = '{number}'")
        return [row[0] for row in self.rows(sql, self.trace)]

    def test_flows(self):
        self.assertEqual(self.connected("directly_connected_flow", 3), ["2-3", "3-5"])
        self.assertEqual(self.connected("directly_connected_flow", 2), ["2-3", "3-5"], "on and on")
        self.assertEqual(self.connected("directly_connected_flow", 4), [])
        self.assertEqual(self.connected("following_flow", 1), ["1-6", "2-3", "6-7", "3-5"],
                         "the slices inside have flows, too")
        self.assertEqual(self.connected("following_flow", 5), [])
        self.assertEqual(self.connected("preceding_flow", 7), ["6-7", "1-6"])
        self.assertEqual(self.connected("preceding_flow", 4), [])
        self.assertEqual(self.rows("SELECT * FROM following_flow(NULL)", self.trace), [])
        self.assertEqual(self.rows("SELECT * FROM following_flow(99)", self.trace), [])
        self.assertIn("whole number",
                      self.ask("SELECT * FROM following_flow('a')", db=self.trace, code=1))

    def test_layout(self):
        layout = lambda tracks: self.rows(
            "SELECT s.name, layout_depth FROM experimental_slice_layout((SELECT group_concat(id) "
            f"FROM track WHERE name IN ({tracks}))) JOIN slice s USING (id) ORDER BY s.name",
            self.trace)
        self.assertEqual(layout("'b', 'c'"), [("3", 0), ("5", 0), ("6", 0), ("7", 0)])
        self.assertEqual(layout("'a', 'b', 'c'"),
                         [("1", 0), ("2", 1), ("3", 3), ("4", 2), ("5", 3), ("6", 3), ("7", 0)])
        self.assertEqual(self.rows("SELECT * FROM experimental_slice_layout('')", self.trace), [])
        self.assertEqual(self.rows("SELECT * FROM experimental_slice_layout('x,,99')", self.trace),
                         [])
        self.assertIn("numbers of tracks", self.ask("SELECT * FROM experimental_slice_layout(NULL)",
                                                    db=self.trace, code=1))

    def test_flat_slices(self):
        flat = lambda begin, end: self.rows(
            "SELECT f.ts, f.dur, f.name FROM experimental_flat_slice"
            f"({begin}, {end}) f JOIN track t ON t.id = f.track_id WHERE t.name = 'a'", self.trace)
        self.assertEqual(flat(0, 200), [(0, 10, None), (10, 10, "1"), (20, 20, "2"), (40, 5, "4"),
                                        (45, 5, "2"), (50, 50, "1"), (100, 100, None)])
        self.assertEqual(flat(5, 42), [(5, 5, None), (10, 10, "1"), (20, 20, "2"), (40, 2, "4")])
        self.assertEqual(flat(15, 60), [], "the slice around is not known")
        self.assertEqual(flat("NULL", 60), [])
        self.assertIn("whole numbers", self.ask("SELECT * FROM experimental_flat_slice('a', 1)",
                                                db=self.trace, code=1))


class ManySlices(Case):
    """A million slices in a table that hides the view. Four slices make a box, and each box
    overlaps the next two."""
    SLICES = (MILLION.replace("SELECT 1 UNION", "SELECT 0 UNION").replace("< 1000000", "< 999999") +
              " SELECT i AS id, i / 4 * 10 + i % 4 AS ts, iif(i % 4, 3, 25) AS dur, i / 4 % 7 AS "
              "track_id, iif(i % 4, 1, 0) AS depth, iif(i % 4, i / 4 * 4, NULL) AS parent_id, "
              "'n' AS name, 'c' AS category, NULL AS arg_set_id FROM n")
    MAKE = f"CREATE TABLE slice AS {SLICES}; CREATE INDEX slice_i ON slice(track_id); "

    def test_layout(self):
        got = self.within(20,
                          self.MAKE + "SELECT count(*) AS n, max(layout_depth) AS m "
                                      "FROM experimental_slice_layout('0,1,2,3,4,5,6')")
        self.assertEqual(got, [(1000000, 5)])

    def test_flat(self):
        got = self.within(20,
                          self.MAKE + "SELECT count(*) AS n, sum(dur) AS s "
                                      "FROM experimental_flat_slice(0, 3000000)")
        self.assertEqual(got[0][1], 7 * 3000000, "each track is full")

    def test_flows(self):
        flows = ("CREATE TABLE flow AS SELECT id, id AS slice_out, id + 5 AS slice_in, "
                 "0 AS trace_id, NULL AS arg_set_id FROM slice WHERE id % 100 < 3; CREATE INDEX "
                 "flow_i ON flow(id); ")
        got = self.within(20,
                          self.MAKE + flows + "SELECT count(*) AS n FROM slice s "
                                              "JOIN directly_connected_flow(s.id)")
        self.assertEqual(got, [(60000,)])


class Stacks(Case):
    def annotations(self, *frames):
        """The annotations from the root on; a frame is a mapping and a name. The tables hide the
        tables of the database."""
        rows = lambda values: ", ".join(str(tuple(value)) for value in values)
        make = ("CREATE TABLE stack_profile_mapping AS "
                "SELECT column1 AS id, column2 AS name FROM (VALUES "
                + rows((i, mapping) for i, (mapping, _) in enumerate(frames)) + "); "
                "CREATE TABLE stack_profile_frame AS "
                "SELECT column1 AS id, column1 AS mapping, column2 AS name FROM (VALUES "
                + rows((i, name) for i, (_, name) in enumerate(frames)) + "); "
                "CREATE TABLE stack_profile_callsite AS "
                "SELECT column1 AS id, column1 AS depth, nullif(column1 - 1, -1) AS parent_id, "
                "column1 AS frame_id FROM (VALUES "
                + rows((i, 0) for i in range(len(frames))) + "); ")
        got = self.rows(make + f"SELECT * FROM experimental_annotated_callstack({len(frames) - 1})")
        last = len(frames) - 1
        self.assertEqual([row[:4] for row in got],
                         [(i, i, i - 1 if i else None, i) for i in range(last, -1, -1)])
        return [row[4] for row in reversed(got)]

    def test_annotations(self):
        art, libc = "/apex/lib64/libart.so", "/system/lib64/libc.so"
        self.assertEqual(self.annotations((libc, "main"), (art, "run")), [None, None],
                         "no frame of Java")
        self.assertEqual(self.annotations((art, "start"), ("/data/app/base.apk", "a"),
                                          (art, "nterp_x"), (art, "run"), (libc, "read")),
                         [None, "interp", "common-frame-interp", "common-frame", None])
        self.assertEqual(self.annotations(("/memfd:jit-cache (deleted)", "a"), ("x.odex", "b"),
                                          ("/x/boot.oat", "art_jni_trampoline"),
                                          (art, "invoke"), (art, "run"),
                                          ("/data/base.apk!lib.so", "c"), ("", "d"),
                                          ("/a.b/c", "e")),
                         ["jit", "aot", "common-frame", None, "common-frame", None, None, None])

    def test_nothing(self):
        self.assertEqual(self.rows("SELECT * FROM experimental_annotated_callstack(NULL)"), [])
        self.assertEqual(self.rows("SELECT * FROM experimental_annotated_callstack(99999999)"), [])
        self.assertIn("whole number",
                      self.ask("SELECT * FROM experimental_annotated_callstack('a')", code=1))


class Tables(Case):
    def info(self, select):
        return self.rows(
            f"CREATE PERFETTO TABLE t AS {select}; SELECT name, col_type, nullable, sorted "
            "FROM perfetto_table_info('t')")

    def test_types(self):
        got = self.info(
            "SELECT column1 AS a, column2 AS b, column3 AS c, column4 AS d, column5 AS e, column6 "
            "AS f, column7 AS g FROM (VALUES (0, -1, 1.0, NULL, 'x', 0, 5000000000), (1, 5, 9, 3, "
            "'y', 0, 1), (2, 7, 8.5, NULL, NULL, 2, 2))")
        self.assertEqual(got, [("a", "id", 0, 0), ("b", "int32", 0, 2), ("c", "double", 0, 3),
                               ("d", "uint32", 1, 3), ("e", "string", 1, 3),
                               ("f", "uint32", 0, 1), ("g", "int64", 0, 3),
                               ("_auto_id", "id", 0, 0)])

    def test_an_empty_table(self):
        got = self.rows("CREATE TABLE t AS SELECT 1 AS \"q\"\"\\\" WHERE 0; SELECT name, col_type, "
                        "nullable, sorted FROM perfetto_table_info('t')")
        self.assertEqual(got, [('q"\\', "uint32", 0, 3), ("_auto_id", "id", 0, 0)])

    def test_tables_of_the_database(self):
        self.assertEqual(self.rows("SELECT name FROM perfetto_table_info('trace_bounds')"),
                         [("start_ts",), ("end_ts",)])
        for name, why in (("'nothing'", "no such table"), ("NULL", "name of a table"),
                          ("5", "name of a table"), ("'a\" x'", "no such table")):
            self.assertIn(why, self.ask(f"SELECT * FROM perfetto_table_info({name})", code=1), name)

    def test_a_million_rows(self):
        got = self.within(
            20, f"CREATE PERFETTO TABLE t AS {MILLION} SELECT i - 1 AS a, 'x' || i AS b FROM n; "
                "SELECT col_type FROM perfetto_table_info('t')")
        self.assertEqual(got, [("id",), ("string",), ("id",)])


class Created(Case):
    def test_a_function_made_twice(self):
        got = self.rows(
            "SELECT create_function('f()', 'INT', 'SELECT 1') AS x; SELECT create_function('f()', "
            "'INT', 'SELECT 2') AS x; SELECT f() AS r")
        self.assertEqual(got, [(2,)])

    def test_a_function_made_anew_while_rows_come(self):
        out = self.ask("CREATE PERFETTO FUNCTION f(x LONG) RETURNS LONG AS SELECT $x; "
                       "SELECT f(column1) AS y, create_function('f(x LONG)', 'LONG', 'SELECT $x * "
                       "10') AS z FROM (VALUES (1), (2), (3))")
        self.assertEqual([line.split(",")[0] for line in out.splitlines()[1:]], ["1", "20", "30"])

    def test_a_function_that_runs_is_not_replaced(self):
        out = self.ask("CREATE PERFETTO FUNCTION f() RETURNS LONG AS "
                       "SELECT create_function('f()', 'LONG', 'SELECT 5'); SELECT f()", code=1)
        self.assertIn("it runs, so it cannot be replaced", out)


if __name__ == "__main__":
    unittest.main()
