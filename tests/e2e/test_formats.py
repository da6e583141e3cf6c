# SPDX-License-Identifier: Apache-2.0
"""mmsql convert on other forms of a trace: compressed, text, Chrome's JSON; and on foreign
files."""
import contextlib
import gzip
import io
import json
import os
import sqlite3
import subprocess
import tarfile

import lib
from protowire import varint
from test_inputs import BUGREPORT_TRACE, GOLDEN, HEAP, PRESSURE, SCHED, Case


@lib.needs_program("xz", "zstd")
class Compressed(Case):
    """gzip, zstd and xz, as streams and around archives."""

    def tar(self, name, entries, form):
        path = self.dir / name
        with tarfile.open(path, "w", format=form) as archive:
            for entry, content in entries.items():
                info = tarfile.TarInfo(entry)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return path

    def packed(self, name, content):
        packer = {"gz": ["gzip"], "zst": ["zstd", "-q"], "xz": ["xz"]}[name.rsplit(".", 1)[1]]
        done = subprocess.run([*packer, "-c"], input=content, capture_output=True, check=True)
        return self.write(name, done.stdout)

    def setUp(self):
        super().setUp()
        linked = subprocess.run(["ldd", lib.MMSQL], capture_output=True, text=True,
                                check=True).stdout
        if "libzstd" not in linked or "liblzma" not in linked:
            self.skipTest("mmsql is built without libzstd or liblzma")

    def packets(self):
        return self.query("SELECT n_packets FROM trace")

    def test_streams(self):
        self.convert(PRESSURE)
        whole = self.packets()
        for kind in ("gz", "zst", "xz"):
            path = self.packed(f"t.{kind}", PRESSURE.read_bytes())
            self.convert(path)
            self.assertEqual(self.packets(), whole, kind)
            path.write_bytes(path.read_bytes()
                             + self.packed(f"u.{kind}", SCHED.read_bytes()).read_bytes() + bytes(8))
            self.convert(path)
            self.assertGreater(self.packets(), whole, f"{kind}: two streams, and zeros after them")
            with open(path, "rb") as stream:
                self.convert("-", stdin=stream)
            self.assertGreater(self.packets(), whole)
            twice = self.packed(f"t.pb.{kind}.xz",
                                self.packed(f"t.pb.{kind}", PRESSURE.read_bytes()).read_bytes())
            self.convert(twice)
            self.assertEqual(self.packets(), whole, "two layers")

    def test_damage(self):
        content = os.urandom(1 << 20)
        content = PRESSURE.read_bytes() + bytes([10]) + varint(len(content) + 10) + bytes(
            [0x7a]) + varint(len(content)) + content
        for kind in ("zst", "xz"):
            path = self.packed(f"t.{kind}", content)
            data = path.read_bytes()
            path.write_bytes(data[:len(data) // 2])
            said = self.convert(path, code=1)
            self.assertRegex(said,
                             rf"t.{kind}: {'zstd' if kind == 'zst' else kind} data ends or breaks "
                             r"at offset \d+: truncated")
            self.assertGreater(self.packets(), [(50,)], "what comes before the cut")
            path.write_bytes(data[:-9] + b"x" * 9 if kind == "xz"
                             else data[:6] + b"\xff" * 20 + data[26:])
            self.assertIn("corrupt", self.convert(path, code=1))
            path.write_bytes(data + b"no such data")
            self.assertIn("are no", self.convert(path, code=1))

    def test_bombs(self):
        path = self.packed("t.zst", bytes([10, 0xff, 0xff, 0xff, 0x7f, 8]) + bytes(1 << 30))
        path = self.packed("t.xz", path.read_bytes() * 2)
        said = self.convert(path, code=1)
        self.assertRegex(said, r"t.xz: inflates to more than 1 GiB and 256 times its size: .* "
                               r"\(what could be read is binary data of an unknown form\)")

    def test_tar(self):
        entries = {"a/t.pftrace": PRESSURE.read_bytes(),
                   "x" * 200 + "/" + "y" * 90: SCHED.read_bytes(),
                   "perf-7.map": b"1000 10 f\n", "notes.txt": b"nothing"}
        for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            for kind in ("", ".gz", ".zst", ".xz"):
                path = self.tar("a.tar", entries, form)
                if kind:
                    path = self.packed(f"a.tar{kind}", path.read_bytes())
                self.convert(path)
                self.assertEqual(self.query("SELECT path FROM trace ORDER BY id"),
                                 [(f"{path}!{name}",) for name in list(entries)[:2]])
                self.assertEqual(self.query("SELECT pid FROM perf_map"), [(7,)])

    def test_short_names_of_ustar(self):
        path = self.tar("a.tar", {"folder/" * 14 + "t": SCHED.read_bytes(),
                                  "./u": PRESSURE.read_bytes()}, tarfile.USTAR_FORMAT)
        self.convert(path)
        self.assertEqual(self.query("SELECT path FROM trace ORDER BY id"),
                         [(f"{path}!{'folder/' * 14}t",), (f"{path}!u",)])

    def test_bugreport_in_a_tar(self):
        path = self.tar("a.tar", {"t": PRESSURE.read_bytes(), BUGREPORT_TRACE: SCHED.read_bytes()},
                        tarfile.PAX_FORMAT)
        self.convert(path)
        self.assertEqual(self.query("SELECT path FROM trace"), [(f"{path}!{BUGREPORT_TRACE}",)])

    def test_damaged_tar(self):
        path = self.tar("a.tar", {"t": PRESSURE.read_bytes(), "u": SCHED.read_bytes(),
                                  "v": HEAP.read_bytes()}, tarfile.PAX_FORMAT)
        data = bytearray(path.read_bytes())
        second = 512 + -(-PRESSURE.stat().st_size // 512) * 512
        path.write_bytes(data[:second - 700])
        said = self.convert(path, code=1)
        self.assertIn("a.tar!t: the archive ends after", said)
        self.assertEqual(self.query("SELECT path FROM trace"), [(f"{path}!t",)])
        data[second + 150] ^= 1
        path.write_bytes(data)
        said = self.convert(path, code=1)
        self.assertIn("a.tar!(some members): headers of the archive are damaged; left out", said)
        self.assertEqual(self.query("SELECT path FROM trace ORDER BY id"),
                         [(f"{path}!t",), (f"{path}!v",)])
        cut = self.packed("b.tar.xz", bytes(data)).read_bytes()
        self.write("b.tar.xz", cut[:-100])
        self.assertIn("b.tar.xz: xz data ends or breaks",
                      self.convert(self.dir / "b.tar.xz", code=1))


class TextProto(Case):
    """Traces in the protobuf text format."""

    def rows(self):
        with contextlib.closing(sqlite3.connect(self.db)) as handle:
            return sorted(line for line in handle.iterdump() if not line.startswith(
                ('INSERT INTO "trace"', 'INSERT INTO "input_file"'))
                          and "trace_size_bytes" not in line and "trace_uuid" not in line
                          and "parse_trace_duration_ns" not in line)

    def test_text_is_as_good_as_bytes(self):
        for name in ("counters_tracks", "heap_continuous"):
            self.convert(GOLDEN / f"{name}.pftrace")
            expected = self.rows()
            self.convert(GOLDEN / f"{name}.textproto")
            self.assertEqual(self.rows(), expected)
            self.assertEqual(self.query("SELECT str_value FROM metadata WHERE name = 'trace_type'"),
                             [("proto",)])

    def test_forms(self):
        text = """# proto-file: perfetto/trace.proto
packet { timestamp: 5; sys_stats { vmstat [{ key: VMSTAT_NR_FREE_PAGES value: 1 }, { key: 1,
  value: 0x10 }] } }
packet: < timestamp: 010 87: 7 sys_stats: < vmstat < 1: 1 2: 80 > > >
packet { timestamp: 9 trusted_packet_sequence_id: 1 sequence_flags: 1 track_event {
  type: TYPE_INSTANT name: 'a\\tb' "\\303\\244" track_uuid: 1
  debug_annotations { name: "d" double_value: -1.5e3 }
    debug_annotations { name: "b" bool_value: true }
  debug_annotations { name: "i" int_value: -7 }
    debug_annotations { name: "inf" double_value: -inf } } }
"""
        self.convert(self.write("t.pbtxt", text))
        self.assertEqual(self.query("SELECT ts, value FROM counter ORDER BY ts, value"),
                         [(5, 1), (5, 16), (8, 80)])
        self.assertEqual(self.query("SELECT name FROM slice"), [("a\tb\u00e4",)])
        self.assertEqual(
            self.query("SELECT key, display_value FROM args WHERE key LIKE 'debug.%' ORDER BY 1"),
            [("debug.b", "true"), ("debug.d", "-1500.0"), ("debug.i", "-7"), ("debug.inf", "-Inf")])

    def stats(self):
        return dict(
            self.query(
                "SELECT substr(name, 12), value FROM stats WHERE name LIKE 'mmsql\\_text\\_%' "
                "ESCAPE '\\' AND value"))

    def test_an_error_is_reported_with_its_line(self):
        good = "packet { timestamp: 5 sys_stats { vmstat { key: 1 value: 7 } } }\n"
        for bad, code, said, stats in (
            ("packet { timestamp: 1\n wow: 7 foo { bar: [1, 2] baz { a: 'x' } } [my.ext]: 5 }", 0,
             'line 3: TracePacket has no field "wow"; fields that this mmsql does not know: 3\n',
             {"unknown_fields": 3}),
            ("packet { timestamp: -1\n sys_stats { vmstat { key: VMSTAT_X value: 'a' } } }", 1,
             'line 2: "1" is not between the limits of its type; values left out: 3; converted',
             {"wrong_values": 3}),
            ("packet { timestamp: 6\n oops", 1,
             'line 4: "packet" in place of a value; packets left out: 1; converted',
             {"wrong_packets": 1, "unknown_fields": 1}),
            ("packet { timestamp: 6 sys_stats { vmstat { key: 1 value: 'open\n } } }", 1,
             "line 2: the syntax is wrong", {"wrong_packets": 1}),
            ("nonsense { }", 1, 'line 2: "nonsense" in place of "packet"', {"wrong_packets": 1}),
            ("packet { track_event { " + "debug_annotations { dict_entries { " * 90, 1,
             "nested deeper than 100", {"wrong_packets": 1}),
        ):
            with self.subTest(bad[:60]):
                heard = self.convert(self.write("t.textproto", good + bad + "\n"
                                                + good.replace("7", "8")), code=code)
                self.assertIn(f"t.textproto: {said}" if said.startswith("line") else said, heard)
                self.assertEqual([value for value, in self.query("SELECT value FROM counter")][
                    ::len(self.query("SELECT * FROM counter")) - 1], [7, 8])
                if "deeper" not in said:
                    self.assertEqual(self.stats(), stats)

    def test_a_cut_keeps_what_is_before(self):
        text = (GOLDEN / "counters_tracks.textproto").read_bytes()
        self.convert(self.write("t.textproto", text))
        whole = self.query("SELECT count(*) FROM counter")[0][0]
        said = self.convert(self.write("t.textproto", text[:-20]), code=1)
        self.assertRegex(said, r"line \d+: .*; packets left out: 1")
        self.assertGreaterEqual(self.query("SELECT count(*) FROM counter")[0][0], whole - 2)

    def test_large_packets(self):
        text = ('packet { timestamp: 5 track_event { name: "%s" type: TYPE_INSTANT track_uuid: 1 } '
                'trusted_packet_sequence_id: 1 }\n')
        self.convert(self.write("t.textproto", text % "a" + text % ("b" * (9 << 20)) + text % "c"))
        self.assertEqual(self.query("SELECT length(name) FROM slice"), [(1,), (9 << 20,), (1,)])


class ChromeJson(Case):
    """Chrome's JSON. Answers are those of trace_processor."""

    def json(self, *events, code=0, **members):
        text = json.dumps({"traceEvents": events, **members})
        return self.convert(self.write("t.json", text), code=code)

    def slices(self):
        return self.query(
            "SELECT ts, dur, s.name, category, depth, t.type FROM slice s JOIN track t ON t.id = "
            "track_id ORDER BY s.ts, s.id")

    def test_slices(self):
        at = {"pid": 1, "tid": 2, "cat": "c"}
        said = self.json(
            {"ph": "B", "ts": 1, "name": "b", "tts": 5, **at},
            {"ph": "X", "ts": 2, "dur": 1.5, "name": "x", "tts": 7, "tdur": 1, **at},
            {"ph": "E", "ts": "9", "tts": 8, **at}, {"ph": "i", "ts": 10, "name": "i", **at},
            {"ph": "I", "ts": 11, "name": "p", "s": "p", **at},
            {"ph": "R", "ts": 12, "name": "g", "s": "g", **at},
            {"ph": "X", "ts": 20, "dur": 1, "name": "child", **at},
            {"ph": "X", "ts": 20, "dur": 4, "name": "parent", **at},
            {"ph": "X", "ts": 22, "dur": 4, "name": "over", **at})
        self.assertEqual(said, "")
        thread = "thread_execution"
        self.assertEqual(self.slices(), [
            (1000, 8000, "b", "c", 0, thread), (2000, 1500, "x", "c", 1, thread),
            (10000, 0, "i", "c", 0, thread),
            (11000, 0, "p", "c", 0, "chrome_process_instant"),
            (12000, 0, "g", "c", 0, "legacy_chrome_global_instants"),
            (20000, 4000, "parent", "c", 0, thread), (20000, 1000, "child", "c", 1, thread),
            (22000, 4000, "over", "c", 0, "thread_overlapping_slice")])
        self.assertEqual(
            self.query("SELECT name, thread_ts, thread_dur FROM slice WHERE thread_ts NOT NULL"),
            [("b", 5000, 3000), ("x", 7000, 1000)])
        self.assertEqual(
            self.query(
                "SELECT value FROM stats WHERE name = 'slice_spill_overlapping_complete_event'"),
            [(1,)])
        self.assertEqual(self.query("SELECT str_value FROM metadata WHERE name = 'trace_type'"),
                         [("json",)])

    def test_args(self):
        args = {"i": -1, "f": 1.5, "t": 'q"\u00e4\n', "b": True, "n": None,
                "l": [1, None, [2, {"k": "v"}]], "o": {"p": {}, "q": [[]]}}
        self.json({"ph": "B", "ts": 1, "pid": 1, "tid": 1, "name": "a", "args": args},
                  {"ph": "E", "ts": 2, "pid": 1, "tid": 1, "args": {"l": [3]}})
        self.assertEqual(
            self.query(
                "SELECT flat_key, key, value_type, display_value FROM args JOIN slice "
                "USING (arg_set_id) ORDER BY key"), [
                    ("args.b", "args.b", "bool", "true"), ("args.f", "args.f", "real", "1.5"),
                    ("args.i", "args.i", "int", "-1"),
                    ("args.l", "args.l[0]", "int", "1"), ("args.l", "args.l[1][0]", "int", "2"),
                    ("args.l.k", "args.l[1][1].k", "string", "v"),
                    ("args.l", "args.l[2]", "int", "3"),
                    ("args.t", "args.t", "string", 'q"\u00e4\n')])

    def test_args_that_are_left_out_are_counted(self):
        at = {"ph": "i", "ts": 1, "pid": 1, "tid": 1, "name": "i"}
        long = "k" * (1 << 20)
        deep = 1
        for _ in range(20):
            deep = [deep]
        for args, kept in (({"a": 1, long: 2, "b": 3}, ["args.a"]), ({"a": {"b": {long: 2}}}, []),
                           ({"a": 1, "d": deep}, ["args.a"]),
                           ({f"k{i}": i for i in range(5000)}, None),
                           ({"t": long, "u": "x"}, ["args.t", "args.u"])):
            with self.subTest(str(args)[:40]):
                said = self.json({**at, "args": args}, {**at, "ts": 2, "args": {"whole": 1}})
                keys = [key
                        for key, in self.query(
                            "SELECT key FROM args JOIN slice USING (arg_set_id) ORDER BY slice.ts, "
                            "args.id")]
                self.assertEqual(keys[-1], "args.whole")
                self.assertEqual(keys[:-1] if kept is not None else None, kept)
                left_out = self.query("SELECT value FROM stats WHERE name = 'mmsql_args_left_out'")[
                    0][0]
                self.assertEqual((left_out, said), (0 if kept and "args.t" in kept else 1, ""))
        for args in ("{\"a\": 1, \"n\": 0.%s, \"b\": 2}" % ("1" * 300),
                     '{"a": 1, "b": 2, "c": what, "d": 3}'):
            self.convert(self.write(
                "t.json", '[{"ph":"i","ts":1,"pid":1,"tid":1,"name":"i","args":%s}]' % args))
            self.assertEqual(
                self.query("SELECT key FROM args JOIN slice USING (arg_set_id) ORDER BY key"),
                [("args.a",), ("args.b",)])
            self.assertEqual(
                self.query("SELECT value FROM stats WHERE name = 'mmsql_args_left_out'"), [(1,)])
        said = lib.run(lib.MMSQL, "query", "--csv",
                       self.write("t.json", json.dumps([{**at, "args": {long: 1}}])),
                       "SELECT 1").stderr
        self.assertIn("data was lost: mmsql_args_left_out (1)", said)

    def test_text_of_the_kernel(self):
        """The lines of ftrace text in the JSON become the rows that they become in a file of their
        own, but for the name of the thread 0. All times are on the trace's clock."""
        text = ("# tracer: nop\n#\n  app-100 (  100) [001] ...1  1.000000: tracing_mark_write: "
                "B|100|in text\n"
                " a\\n\"-5 (  100) [001] d..2  1.200000: sched_blocked_reason: pid=5 iowait=1 "
                "caller=foo+0x1/0x2\n\n"
                " a\\n\"-5 (  100) [001] d..2  1.300000: sched_switch: prev_comm=a prev_pid=5 "
                "prev_prio=120 prev_state=S ==> next_comm=app next_pid=100 next_prio=120\n"
                "  app-100 (  100) [001] ...1  1.500000: tracing_mark_write: E|100\n")
        event = {"ph": "X", "ts": 2000, "dur": 500, "pid": 100, "tid": 100, "name": "in json"}
        tables = ("SELECT ts, dur, name FROM slice ORDER BY ts",
                  "SELECT ts, e.name, cpu, tid FROM ftrace_event e JOIN thread USING (utid) "
                  "ORDER BY ts",
                  "SELECT tid, name FROM thread ORDER BY tid",
                  "SELECT ts, dur, state, io_wait, blocked_function FROM thread_state "
                  "ORDER BY ts, id",
                  "SELECT key, display_value FROM args WHERE key <> 'utid' ORDER BY key, "
                  "display_value")
        self.convert(self.write("t.txt", text))
        alone = [self.query(sql) for sql in tables]
        alone[0].insert(0, (2000000, 500000, "in json"))
        self.assertEqual([len(rows) for rows in alone], [2, 4, 3, 2, 12])
        self.assertEqual(alone[2][0], (0, "swapper"))
        alone[2][0] = (0, None)  # in JSON the pid 0 is a process like others
        self.assertEqual(self.json(event, systemTraceEvents=text), "")
        self.assertEqual([self.query(sql) for sql in tables], alone)
        self.assertEqual(
            self.convert(self.write("t.json", '{"systemTraceEvents": %s, "traceEvents": [%s]}'
                                    % (json.dumps(text), json.dumps(event)))), "")
        self.assertEqual([self.query(sql) for sql in tables], alone)
        said = self.json(event, systemTraceEvents=text + "nonsense\n" + "x" * (2 << 20) + "\n",
                         code=1)
        self.assertIn("line 8 of systemTraceEvents is not an ftrace event; 2 such lines are left "
                      "out", said)

    def test_async_slices_and_flows(self):
        at = {"pid": 1, "tid": 1, "cat": "c"}
        self.json(
            {"ph": "b", "ts": 1, "id": "0x1", "name": "a", **at},
            {"ph": "b", "ts": 2, "id": 2, "name": "a", **at},
            {"ph": "n", "ts": 3, "id": "0x1", "name": "a", **at},
            {"ph": "e", "ts": 4, "id": "0x1", "name": "a", **at},
            {"ph": "e", "ts": 5, "id": 2, "name": "a", **at},
            {"ph": "b", "ts": 6, "id2": {"local": "7"}, "name": "l", **at},
            {"ph": "B", "ts": 10, "name": "from", **at},
            {"ph": "s", "ts": 10, "id": 1, "name": "f", **at}, {"ph": "E", "ts": 11, **at},
            {"ph": "B", "ts": 12, "name": "step", **at},
            {"ph": "t", "ts": 12, "id": 1, "name": "f", **at}, {"ph": "E", "ts": 13, **at},
            {"ph": "f", "ts": 14, "id": 1, "name": "f", **at},
            {"ph": "B", "ts": 15, "name": "to", **at},
            {"ph": "f", "ts": 15, "id": 1, "name": "f", "bp": "e", **at},
            {"ph": "X", "ts": 20, "dur": 1, "name": "out", "bind_id": "0x1f", "flow_out": True,
             **at},
            {"ph": "X", "ts": 30, "dur": 1, "name": "in", "bind_id": "0x1f", "flow_in": True, **at})
        self.assertEqual([(ts, dur, name, kind) for ts, dur, name, _, _, kind in self.slices()][:4],
                         [
                             (1000, 3000, "a", "legacy_async_global_slice"),
                             (2000, 3000, "a", "legacy_async_global_slice"),
                             (3000, 0, "a", "legacy_async_global_slice"),
                             (6000, -1, "l", "legacy_async_process_slice")])
        self.assertEqual(
            self.query(
                "SELECT o.name, i.name FROM flow JOIN slice o ON o.id = slice_out "
                "JOIN slice i ON i.id = slice_in ORDER BY flow.id"),
            [("from", "step"), ("step", "to"), ("step", "to"), ("out", "in")])

    def test_counters_states_and_names(self):
        self.json(
            {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "prog"}},
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "main"}},
            {"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": 2,
             "args": {"sort_index": -3}},
            {"ph": "C", "ts": 1, "pid": 1, "tid": 2, "name": "mem",
             "args": {"rss": 5, "text": "1.5"}},
            {"ph": "C", "ts": 2, "pid": 1, "tid": 2, "name": "mem", "id": "a", "args": {"rss": 6}},
            {"ph": "T", "ts": 3, "dur": 2, "pid": 1, "tid": 2, "name": "Running",
             "args": {"cpu": 1}},
            {"ph": "i", "ts": 4, "pid": "text", "tid": "other", "name": "i"}, displayTimeUnit="ns",
            metadata={"os": "x", "n": 5})
        self.assertEqual(
            self.query(
                "SELECT ts, value, t.name, t.type FROM counter JOIN track t ON t.id = track_id "
                "ORDER BY ts, value"),
            [(1000, 1.5, "mem text", "json_counter"), (1000, 5, "mem rss", "json_counter"),
             (2000, 6, "mem id: a rss", "json_counter")])
        self.assertEqual(self.query("SELECT ts, dur, state FROM thread_state"),
                         [(3000, 2000, "Running")])
        self.assertEqual(self.query("SELECT ts, dur, ucpu FROM sched_slice"), [(3000, 2000, 1)])
        self.assertEqual(
            self.query(
                "SELECT p.name, t.name FROM thread t JOIN process p USING (upid) WHERE tid "
                "AND t.name NOT NULL ORDER BY 1"),
            [("prog", "main"), ("text", "other")])
        self.assertEqual(
            self.query(
                "SELECT name, coalesce(str_value, int_value) FROM metadata WHERE name LIKE 'json%' "
                "ORDER BY 1"),
            [("json_metadata.n", 5), ("json_metadata.os", "x")])

    def test_forms(self):
        event = '{"ph":"i","ts":%d,"pid":1,"tid":1,"name":"i"}'
        for text in ("[%s,%s]", "[%s,\n%s,]", "[%s,%s", "[%s,%s,\n", '{"traceEvents":[%s,%s]}',
                     ' {"a":[{"x":"]}"}],"traceEvents":[%s,%s,{}],"b":{}}\n'):
            self.assertEqual(self.convert(self.write("t.json", text % (event % 1, event % 2))), "",
                             text)
            self.assertEqual(self.query("SELECT ts FROM slice"), [(1000,), (2000,)])

    def test_damage_costs_no_more_than_it_must(self):
        event = '{"ph":"i","ts":%d,"pid":1,"tid":1,"name":"i"}'
        for text, said in (
            ('{"traceEvents":[%s,%s', "the JSON ends at offset"),
                ('{"traceEvents":[%s,%s,{"ph":"B","na',
                 "the JSON ends inside of the event at offset"),
            ("[%s,{\"ph\":'x',\"args\":{\"a\":[{}]}},%s]",
             "the event at offset 46 of the JSON cannot be read; events left out: 1"),
            ('[%s,{"ph":"X"},%s]', "events left out: 1"),
                ("[%s,%s,nonsense,%s]".replace(",%s]", "]"), "the JSON breaks at offset"),
        ):
            self.assertIn(said, self.convert(self.write("t.json", text % (event % 1, event % 2)),
                                             code=1), text)
            self.assertEqual(self.query("SELECT ts FROM slice"), [(1000,), (2000,)])
        for text in ('{"traceEvents":[', '[{"ph":"i","ts":5,"na', "PERFILE2" + 16 * "a"):
            said = self.convert(self.write("t.json", text), code=1)
            self.assertIn("nothing before it could be read", said)
            done = lib.run(lib.MMSQL, "query", self.dir / "t.json", "SELECT count(*) FROM slice")
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn("nothing before it could be read", done.stderr)
        deep = '[%s,{"ph":"i","ts":5,"pid":1,"tid":1,"args":{"a":%s}}]' % (
            event % 1, "[" * 100000 + "]" * 100000)
        self.convert(self.write("t.json", deep))
        self.assertEqual(self.query("SELECT ts FROM slice"), [(1000,), (5000,)])

    def test_json_that_is_no_trace(self):
        for text in ('{"a": 1}', '{"nodes": [], "edges": [1, 2]}'):
            self.assertIn("t.json: JSON, but no Chrome trace (it has no traceEvents)",
                          self.convert(self.write("t.json", text), code=1))
        path = self.zip("a.zip", {"package.json": b'{"a": 1}',
                                  "t.json": b'[{"ph":"i","ts":1,"pid":1,"tid":1}]'})
        self.convert(path)
        self.assertEqual(self.query("SELECT path FROM trace"), [(f"{path}!t.json",)])


class ForeignFiles(Case):
    """The text of the message about a file that is not a trace."""

    def test_kinds_are_named(self):
        kinds = {
            b"\x7fELF" + bytes(60): r"an ELF file \(.*--symbol-path",
            b"\x89PNG\r\n\x1a\n" + bytes(9): "a PNG picture",
            b"%PDF-1.5\n": "a PDF document",
            b"JAVA PROFILE 1.0.2\0": r"a Java heap dump \(hprof\)",
            bytes.fromhex("0a04080110020a04080310041202") + b"\x08\x01": "a pprof profile",
            b"BZh91AY": r"bzip2 data \(unpack it first",
            b"<!DOCTYPE html>\n<html></html>": "an HTML page",
            b"no trace at all\n": "text of an unknown form",
            b"\x01\x02\x03\x04": r"binary data of an unknown form \(it does not begin with a "
                                 r"packet\)",
            bytes(5000): "zeros",
        }
        for content, name in kinds.items():
            said = self.convert(self.write("file", content), code=1)
            self.assertRegex(said, rf"file: not a Perfetto trace, but {name}")
            self.assertRegex(self.convert(self.write("file", gzip.compress(content)), code=1), name)
        self.assertIn("file: the file is empty", self.convert(self.write("file", b""), code=1))
        self.nothing_left("file")

    def test_databases(self):
        self.convert(SCHED)
        said = self.convert(self.db, db=self.dir / "b.db", code=1)
        self.assertRegex(
            said, r"out.db: not a Perfetto trace, but a SQLite database \('mmsql query' .*--append")
