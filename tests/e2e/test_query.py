# SPDX-License-Identifier: Apache-2.0
"""mmsql query: on traces, with Perfetto's functions and dialect, the loadable extension, and at a
terminal."""
import os
import pathlib
import pty
import re
import resource
import select
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import termios
import time
import unittest

import lib
import states

GOLDEN = lib.ROOT / "tests" / "golden"
PRESSURE = GOLDEN / "mm_pressure.pftrace"
TRACKS = GOLDEN / "counters_tracks.pftrace"
EXTENSION = lib.BUILD / "converter" / "mmsql_functions.so"


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="query-"))
        cls.db = cls.dir / "p.db"
        lib.run(lib.MMSQL, "convert", "-q", PRESSURE, "-o", cls.db)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir, ignore_errors=True)

    def ask(self, sql, *options, db=None, code=0, **run_options):
        done = lib.run(lib.MMSQL, "query", "--csv", *options, db or self.db,
                       *([sql] if sql else []), **run_options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def value(self, expression):
        return self.ask(f"SELECT {expression} AS x").splitlines()[1]


class OnTraces(Case):
    def test_a_trace_needs_no_database(self):
        here = self.dir / "tmp"
        here.mkdir(exist_ok=True)
        out = self.ask("SELECT count(*) AS n FROM slice", db=PRESSURE,
                       env=dict(os.environ, TMPDIR=str(here)))
        self.assertEqual(out, "n\n13\n")
        self.assertEqual(list(here.iterdir()), [], "nothing is left behind")

    def test_compat(self):
        path = self.dir / "compat.db"
        with sqlite3.connect(path) as db:
            db.executescript(
                "CREATE TABLE filedescriptor(id, ufd, fd); INSERT INTO filedescriptor "
                "VALUES (1, 7, 3), (2, 8, 3);"
                "CREATE TABLE profiler_smaps(id, size_kb, swap_kb, path); "
                "INSERT INTO profiler_smaps VALUES (1, 4, NULL, NULL);"
                "CREATE TABLE sched_slice(id, cpu, ucpu); INSERT INTO sched_slice VALUES (1, 1, "
                "4097);"
                "CREATE VIEW sched AS SELECT * FROM sched_slice")
        db.close()
        for sql, own, compat in (
                ("SELECT fd, count(DISTINCT ufd) AS n FROM filedescriptor GROUP BY fd", "3,2",
                 "3,1"),
                ("SELECT swap_kb, path, size_kb FROM profiler_smaps", ",,4", "0,,4"),
                ("SELECT * FROM sched", "1,1,4097", "1,4097,4097"),
                ("SELECT id, cpu FROM sched_slice", "1,1", "1,4097")):
            with self.subTest(sql):
                self.assertEqual(self.ask(sql, "-q", db=path).splitlines()[1], own)
                self.assertEqual(self.ask(sql, "-q", "--compat", db=path).splitlines()[1], compat)
        self.assertEqual(self.ask("SELECT count(*) AS n FROM slice", "--compat", db=PRESSURE),
                         "n\n13\n")

    @lib.needs_program("protoc")
    def test_compat_in_a_database(self):
        """Plain SQLite reads from the database the answers that query --compat gives."""
        text = (GOLDEN / "imports" / "ftrace_machines.textproto").read_text() + """
            packet { machine_id: 7 trusted_packet_sequence_id: 2 ftrace_events { cpu: 1
                event { timestamp: 2100 pid: 0 sched_switch { prev_pid: 0 next_pid: 10
                  next_comm: "a" next_prio: 120 } }
                event { timestamp: 2900 pid: 10 sched_switch { prev_pid: 10 prev_comm: "a"
                  next_pid: 0 } } } }
            packet { trusted_packet_sequence_id: 9 timestamp: 5 process_stats { processes { pid: 3
                fds { fd: 4 path: "/a" } fds { fd: 5 path: "/b" } } } }
            packet { trusted_packet_sequence_id: 9 timestamp: 5 smaps_packet { pid: 3 entries {
              path: "/a" size_kb: 4 } } }"""
        trace, other, own, compat = (self.dir / name
                                     for name in ("machines", "second", "own.db", "stored.db"))
        trace.write_bytes(lib.encode(text))
        other.write_bytes(
            lib.encode(
                'packet { trusted_packet_sequence_id: 9 timestamp: 6 smaps_packet { pid: 3 entries '
                '{ path: "/c" } } }'))

        def make(db, *arguments):
            done = lib.run(lib.MMSQL, "convert", "-q", *arguments, "-o", db)
            self.assertEqual(done.returncode, 0, done.stderr)

        def compare(differing):
            """The tables whose rows differ in `own` and `compat`."""
            found = set()
            for table in ("filedescriptor", "ftrace_event", "profiler_smaps", "sched",
                          "sched_slice", "thread_state"):
                rows = {}
                for db in (own, compat):
                    with sqlite3.connect(db) as handle:
                        rows[db] = handle.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()
                    handle.close()
                question = f"SELECT * FROM {table} ORDER BY id"
                stored = self.ask(question, "-q", db=compat)
                self.assertEqual(stored, self.ask(question, "-q", "--compat", db=own), table)
                self.assertEqual(stored, self.ask(question, "-q", "--compat", db=compat), table)
                self.assertTrue(rows[compat], table)
                found |= {table} if rows[own] != rows[compat] else set()
            self.assertEqual(found, differing)

        everything = {"filedescriptor", "ftrace_event", "profiler_smaps", "sched", "sched_slice",
                      "thread_state"}
        make(own, trace)
        make(compat, "--compat", trace)
        compare(everything)
        for db in (own, compat):
            make(db, "--append", other)
        compare(everything)
        make(own, "--append", "--compat", other)
        compare(set())
        before = own.stat().st_mtime_ns
        make(own, "--append", other)
        self.assertEqual(own.stat().st_mtime_ns, before)

    @lib.needs_program("protoc")
    def test_crop_track_events(self):
        """The packet with the range stands after the events. The differences of times in left-out
        events still move the clock."""
        def event(ts, kind, more=""):
            return (f"packet {{ trusted_packet_sequence_id: 1 timestamp: {ts} "
                    f"track_event {{ type: {kind} {more} }} }}\n")

        text = ("packet { trusted_packet_sequence_id: 1 timestamp: 0 incremental_state_cleared: "
                "true } " + "".join((
                    "packet { trusted_packet_sequence_id: 1 timestamp: 0 track_descriptor "
                    "{ uuid: 1 thread { pid: 5 tid: 6 } } }",
                    "packet { trusted_packet_sequence_id: 1 timestamp: 0 track_descriptor "
                    "{ uuid: 2 name: 'sum' counter { is_incremental: true } } }",
                    event(10000, "TYPE_SLICE_BEGIN", "track_uuid: 1 name: 'early'"),
                    event(11999, "TYPE_INSTANT", "track_uuid: 1 name: 'early'"),
                    event(11999, "TYPE_COUNTER", "track_uuid: 2 counter_value: 3"),
                    event(12000, "TYPE_SLICE_BEGIN", "track_uuid: 1 name: 'late'"),
                    event(12500, "TYPE_COUNTER", "track_uuid: 2 counter_value: 4"),
                    event(13000, "TYPE_SLICE_END", "track_uuid: 1"),
                    event(14000, "TYPE_SLICE_END", "track_uuid: 1"))))
        ranges = "".join(
            f"packet {{ trusted_packet_sequence_id: 1 timestamp: 1 track_event_range_of_interest "
            f"{{ {text} }} }}"
            for text in ("start_us: 1", "start_us: 12", ""))
        trace, plain = self.dir / "range", self.dir / "no_range"
        trace.write_bytes(lib.encode(text + ranges))
        plain.write_bytes(lib.encode(text))
        sql = ("SELECT ts, dur, name FROM slice UNION ALL SELECT ts, value, 'sum' FROM counter "
               "UNION ALL SELECT int_value, NULL, name FROM metadata WHERE name GLOB 'range*' "
               "UNION ALL SELECT value, NULL, name FROM stats "
               "WHERE name GLOB 'track_event_*range_of*' AND value ORDER BY 3, 1")
        missing = ["1,,track_event_range_of_interest_missing_start_us"]
        every = ["10000,4000,early", "11999,0,early", "12000,1000,late",
                 "12,,range_of_interest_start_us", "11999,3,sum", "12500,7,sum"]
        cropped = ["12000,1000,late", "12,,range_of_interest_start_us", "12500,7,sum",
                   "3,,track_event_dropped_packets_outside_of_range_of_interest"]

        def rows(db, *options):
            return [line.replace(".0", "")
                    for line in self.ask(sql, "-q", *options, db=db).splitlines()[1:]]

        self.assertEqual(rows(trace), every + missing)
        self.assertEqual(rows(trace, "--crop-track-events"), cropped + missing)
        self.assertEqual(rows(plain, "--crop-track-events"),
                         [row for row in every if "range" not in row])
        db = self.dir / "cropped.db"
        lib.run(lib.MMSQL, "convert", "-q", "--crop-track-events", trace, "-o", db)
        self.assertEqual(rows(db), cropped + missing)
        self.assertIn("give the option to 'mmsql convert'",
                      self.ask(sql, "--crop-track-events", db=db, code=1))

    def test_files_of_a_killed_query_are_removed(self):
        here = self.dir / "killed"
        here.mkdir()
        os.mkfifo(here / "trace")
        env = dict(os.environ, TMPDIR=str(here))
        for number, left in ((signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGHUP, 0),
                             (signal.SIGKILL, 1)):
            process = subprocess.Popen([lib.MMSQL, "query", here / "trace", "SELECT 1"], env=env,
                                       stderr=subprocess.PIPE, text=True)
            with process, (here / "trace").open("wb") as trace:
                trace.write(PRESSURE.read_bytes()[:30000])
                trace.flush()
                lib.wait_for(lambda: list(here.glob("mmsql-query.*")), "the database on the way")
                process.send_signal(number)
                # the pipe stays open, so that the trace does not end
                said = process.communicate(timeout=60)[1]
            self.assertNotEqual(process.returncode, 0)
            self.assertEqual(len(list(here.glob("mmsql-query.*"))), left, f"{number}: {said}")
        self.ask("SELECT 1", db=PRESSURE, env=env)
        self.assertEqual([p.name for p in here.iterdir()], ["trace"])

    def test_standard_input(self):
        with PRESSURE.open("rb") as trace:
            self.assertEqual(self.ask("SELECT count(*) AS n FROM slice", db="-", stdin=trace),
                             "n\n13\n")

    def test_pipe_with_a_name(self):
        pipe = self.dir / "pipe"
        os.mkfifo(pipe)
        for _ in range(20):
            with lib.Popen([lib.MMSQL, "query", "--csv", pipe, "SELECT count(*) AS n FROM slice"],
                                  stdout=subprocess.PIPE, text=True) as process:
                pipe.write_bytes(PRESSURE.read_bytes())
                try:
                    self.assertEqual(process.communicate(timeout=60)[0], "n\n13\n")
                finally:
                    process.kill()

    def test_neither_database_nor_trace(self):
        said = self.ask("SELECT 1", db=GOLDEN / "check.py", code=1)
        self.assertIn("check.py: not a database; as a trace: ", said)
        self.assertIn("No such file", self.ask("SELECT 1", db="/nonexistent", code=1))
        (self.dir / "nothing").write_bytes(b"")
        self.assertEqual(self.ask("SELECT 1", db=self.dir / "nothing", code=1),
                         f"mmsql: {self.dir}/nothing: the file is empty\n")
        (self.dir / "text").write_text("no trace\n")
        said = self.ask("SELECT 1", db=self.dir / "text", code=1)
        self.assertEqual(said.count(str(self.dir)), 1, said)

    def test_commands_of_the_prompt_are_no_sql(self):
        said = self.ask(".tables", code=1)
        self.assertRegex(said, r"^mmsql: \.tables: a command with a dot is for the prompt \('mmsql "
                               r"query \S+' opens it; 'mmsql tables' lists the tables\)\n$")
        (self.dir / "commands").write_text("\n.schema slice\n")
        said = self.ask(None, "-f", self.dir / "commands", code=1)
        self.assertIn("mmsql: .schema: a command with a dot", said)

    def test_the_end_of_incomplete_sql_is_shown(self):
        said = self.ask("SELECT (\n  1, -- more\n\n", code=1)
        self.assertEqual(said, "mmsql: incomplete input\n"
                               "  line 2, column 5:   1, -- more\n"
                               "                        ^\n")

    def test_sql_may_begin_with_a_comment(self):
        for sql in ("-- how many\nSELECT 7 AS n", "--\nSELECT 7 AS n", "--how many\nSELECT 7 AS n",
                    "/* how many */ SELECT 7 AS n"):
            self.assertEqual(self.ask(sql), "n\n7\n")
        done = lib.run(lib.MMSQL, "query", self.db, "-- how many\nSELECT 7 AS n", "--csv", "-q")
        self.assertEqual((done.returncode, done.stdout), (0, "n\n7\n"), done.stderr)
        self.assertIn("--many: not an option", self.ask("--many", code=2))
        self.assertIn("one argument", self.ask("-- a\nSELECT 1", "x", code=2))


class Functions(Case):
    def test_scalars(self):
        for expression, want in (
                ("STR_SPLIT('a,b,,c', ',', 2) || '|' || STR_SPLIT('a', ',', 0)", "|a"),
                ("STR_SPLIT('a,b', ',', 2) IS NULL", "1"), ("STR_SPLIT('a<>b', '<>', 1)", "b"),
                (r"'kworker/0:1' REGEXP '^kworker/\d+'", "1"), (r"'x' REGEXP '\d'", "0"),
                ("NULL REGEXP 'a' IS NULL", "1"),
                (r"REGEXP_EXTRACT('foo.bar 12', '\w+\.(\w+)')", "bar"),
                ("REGEXP_EXTRACT('abc', 'b.')", "bc"),
                ("REGEXP_EXTRACT('abc', 'x') IS NULL", "1"),
                ("REGEXP_REPLACE_SIMPLE('a1b22', '[0-9]+', '#')", "a#b#"),
                ("REGEXP_REPLACE_SIMPLE('abc', 'x*', '-')", "-a-b-c-"),
                ("UNHEX('0xfF') + UNHEX('10')", "271"), ("REVERSE('añb')", "bña"),
                ("REVERSE('')", ""),
                ("BASE64_ENCODE('hello') || BASE64_ENCODE('') || BASE64_ENCODE('ab')",
                 "aGVsbG8=YWI="),
                ("CAST(BASE64_DECODE('aGVsbG8=') AS TEXT)", "hello"),
                ("HASH(1, 'a') = HASH(1, 'a')", "1"),
                ("HASH('ab', 'c') = HASH('a', 'bc')", "1"),
                ("TO_TIMECODE(3661000002003)", "01:01:01 000 002 003"),
                ("TIME_FROM_MS(3)", "3000000"), ("TIME_TO_S(3000000000)", "3"),
                ("EXTRACT_ARG(NULL, 'a') IS NULL", "1"),
                ("DEMANGLE('main') IS NULL", "1")):
            with self.subTest(expression):
                self.assertEqual(self.value(expression).strip('"'), want)

    def test_demangle(self):
        shown = self.value("DEMANGLE('_ZN3foo3barEi')")
        self.assertIn(shown, ("foo::bar(int)", ""))

    def test_wrong_arguments(self):
        for expression, why in (("'a' REGEXP '('", "pattern '('"),
                                ("STR_SPLIT('a', '', 0)", "separator"),
                                ("UNHEX('xyz')", "hexadecimal"), ("BASE64_DECODE('?')", "base64"),
                                (f"'a' REGEXP '{'a' * 5000}'", "too long"),
                                ("EXTRACT_ARG(1)", "wrong number"),
                                ("(SELECT count(*) FROM ancestor_slice)", "function of 1 arg")):
            with self.subTest(expression[:40]):
                self.assertIn(why, self.ask(f"SELECT {expression}", code=1))

    def test_of_the_trace(self):
        self.assertEqual(
            self.value(
                "TRACE_START() = (SELECT start_ts FROM trace_bounds) AND TRACE_DUR() = TRACE_END() "
                "- TRACE_START()"), "1")
        self.assertEqual(self.value(
            "(SELECT sum(EXTRACT_ARG(arg_set_id, 'nid') = 0) = count(*) FROM ftrace_event "
            "WHERE name = 'mm_vmscan_kswapd_wake')"), "1")
        offset = (
            "(SELECT clock_value - ts FROM clock_snapshot WHERE clock_name = 'REALTIME' LIMIT 1)")
        self.assertEqual(self.value(
            f"abs(TO_REALTIME(TRACE_START()) - TRACE_START() - {offset}) < 1000000"), "1")
        self.assertRegex(self.value("ABS_TIME_STR(TRACE_START())"),
                         r"^2026-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}$")

    def test_slices(self):
        """Slice 0 contains slice 1, and slice 1 contains slice 2; slice 3 has no parent."""
        marks = [(1, "B|10|a"), (2, "B|10|b"), (3, "B|10|c"), (4, "E|10"), (5, "E|10"), (6, "E|10"),
                 (7, "B|10|d"), (8, "E|10")]
        events = " ".join(f'event {{ timestamp: {ts} pid: 10 print {{ buf: "{text}\\n" }} }}'
                          for ts, text in marks)
        text = f"packet {{ trusted_packet_sequence_id: 1 ftrace_events {{ cpu: 0 {events} }} }}"
        (self.dir / "marks").write_bytes(lib.encode(text))
        db = self.dir / "t.db"
        lib.run(lib.MMSQL, "convert", "-q", self.dir / "marks", "-o", db)
        for call, want in (("ancestor_slice(2)", ["0", "1"]), ("ancestor_slice(0)", []),
                           ("descendant_slice(0)", ["1", "2"]),
                           ("descendant_slice(2)", []), ("descendant_slice(3)", []),
                           ("ancestor_slice(NULL)", []),
                           ("ancestor_slice(99)", [])):
            self.assertEqual(self.ask(f"SELECT id FROM {call}", db=db).split()[1:], want, call)
        self.assertEqual(
            self.ask("SELECT SLICE_IS_ANCESTOR(0, 2) || SLICE_IS_ANCESTOR(2, 0) || "
                     "SLICE_IS_ANCESTOR(0, 3) AS x",
                     db=db).split()[1], "100")
        self.assertEqual(
            self.ask("SELECT s.id, a.name FROM slice s JOIN ancestor_slice(s.id) a "
                     "WHERE s.depth = 1", db=db).split()[1:],
            ["1,a"])

    @lib.needs_program("protoc")
    def test_args_are_those_of_the_view(self):
        """The table that hides the view answers alone and in joins. One set has more values than a
        row."""
        many = "".join(f'debug_annotations {{ name: "k{i}" uint_value: {i} }}' for i in range(200))
        text = (f'packet {{ timestamp: 1 trusted_packet_sequence_id: 1 track_event '
                f'{{ type: TYPE_INSTANT name: "x" {many} }} }}')
        before = (GOLDEN / "imports" / "track_events.textproto").read_text()
        (self.dir / "many").write_bytes(lib.encode(before + text))
        same = ("SELECT (SELECT count(*) FROM main.args) = (SELECT count(*) FROM args) AND "
                "NOT EXISTS (SELECT * FROM main.args EXCEPT SELECT * FROM args) AND "
                "NOT EXISTS (SELECT * FROM args EXCEPT SELECT * FROM main.args) AND "
                "NOT EXISTS (SELECT 1 FROM main.args m LEFT JOIN args a ON a.arg_set_id = "
                "m.arg_set_id AND a.key = m.key AND a.flat_key = m.flat_key AND a.display_value IS "
                "m.display_value WHERE a.id IS NULL) AND NOT EXISTS (SELECT 1 FROM main.args m "
                "WHERE m.id NOT IN (SELECT id FROM args WHERE key = m.key)) AND NOT EXISTS (SELECT "
                "1 FROM main.args m WHERE EXTRACT_ARG(arg_set_id, key) IS NOT (SELECT "
                "coalesce(string_value, real_value, int_value) FROM main.args f WHERE f.arg_set_id "
                "= m.arg_set_id AND f.key = m.key LIMIT 1)) AS same, (SELECT count(*) "
                "FROM args) AS n")
        for db, least in ((self.dir / "many", 250), (GOLDEN / "sched_deflate.pftrace", 5000)):
            out = self.ask(same, db=db).splitlines()[1].split(",")
            self.assertEqual(out[0], "1", db)
            self.assertGreater(int(out[1]), least)
        for condition in ("arg_set_id IS NULL", "arg_set_id = 'x'", "key = NULL", "key = 5",
                          "key = x'00'", "arg_set_id = 0.5",
                          "arg_set_id = -1", "arg_set_id = 0 AND key = 'nothing'"):
            self.assertEqual(self.ask(f"SELECT count(*) AS n FROM args WHERE {condition}",
                                      db=self.dir / "many"), "n\n0\n", condition)

    def test_args_left_joined(self):
        plan = self.ask("EXPLAIN QUERY PLAN SELECT * FROM slice LEFT JOIN args USING (arg_set_id)")
        self.assertNotIn("MATERIALIZE", plan)
        out = self.ask(
            "SELECT count(*) AS n, count(key) AS k FROM (VALUES (NULL), (-5)) LEFT "
            "JOIN args ON arg_set_id = column1")
        self.assertEqual(out, "n,k\n2,0\n")

    @lib.needs_program("sqlite3")
    @unittest.skipIf("asan" in lib.run("ldd", EXTENSION).stdout,
                     "a sanitizer's library must be loaded first")
    def test_extension(self):
        done = lib.run("sqlite3", "-bail", self.db, f".load {EXTENSION}",
                       "SELECT STR_SPLIT('a b', ' ', 1)",
                       "SELECT max(EXTRACT_ARG(arg_set_id, 'direct_reclaim_order')) FROM slice",
                       "SELECT count(*) FROM descendant_slice(0)",
                       "SELECT count(*) = (SELECT count(*) FROM main.args) FROM temp.args")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "b\n0\n0\n1\n", ""))
        done = lib.run("sqlite3", "-bail", ":memory:", f".load {EXTENSION}",
                       "SELECT STR_SPLIT('a b', ' ', 1)")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "b\n", ""),
                         "no database of mmsql")


class Dialect(Case):
    def test_tables_views_functions(self):
        out = self.ask("""
            -- a comment; with a semicolon
            CREATE PERFETTO TABLE big(id LONG, text STRING) AS SELECT 1 AS id, 'a;b' AS text;
            CREATE OR REPLACE PERFETTO VIEW seen AS SELECT text FROM big;
            CREATE PERFETTO FUNCTION twice(x LONG, y JOINID(slice.id)) RETURNS LONG AS
              SELECT $x * 2 + $y + length('$x');
            CREATE PERFETTO FUNCTION first_slices(n LONG) RETURNS TABLE(id LONG, dur LONG) AS
              SELECT id, dur FROM slice ORDER BY id LIMIT $n;
            SELECT text, twice(4, 1) AS n, (SELECT count(*) FROM first_slices(3)) AS m FROM seen""")
        self.assertEqual(out, "text,n,m\na;b,11,3\n")

    def test_plain_tables_and_views_are_temporary(self):
        before = self.db.read_bytes()
        out = self.ask(
            "CREATE TABLE t AS SELECT 1 AS x; CREATE VIEW IF NOT EXISTS v AS SELECT x + 1 AS y "
            "FROM t; SELECT y FROM v; DROP VIEW v")
        self.assertEqual(out, "y\n2\n")
        self.assertEqual(self.db.read_bytes(), before)
        self.assertIn("readonly", self.ask("CREATE TABLE main.t AS SELECT 1 AS x", code=1))

    SPANS = ("CREATE TABLE a AS SELECT column1 AS ts, column2 AS dur, column3 AS cpu, column4 AS x "
             "FROM (VALUES (0, 10, 1, 'p'), (10, 10, 1, 'q'), (30, 5, 1, 'r'), (0, 100, 2, 's'), "
             "(0, 5, 4, 'u'), (50, -1, 1, 'open'));"
             "CREATE TABLE b AS SELECT column1 AS ts, column2 AS dur, column3 AS cpu, column4 AS y "
             "FROM (VALUES (5, 10, 1, 1), (20, 15, 1, 2), (0, 10, 2, 3), (20, 10, 2, 4), (0, 5, 3, "
             "5));")

    def test_span_joins(self):
        inner = ["5,5,1,p,1", "10,5,1,q,1", "30,5,1,r,2", "0,10,2,s,3", "20,10,2,s,4"]
        left = ["0,5,1,p,", "15,5,1,q,", "50,-1,1,open,", "10,10,2,s,", "30,70,2,s,", "0,5,4,u,"]
        right = ["20,10,1,,2", "0,5,3,,5"]
        for kind, want in (("SPAN_JOIN", inner), ("SPAN_LEFT_JOIN", inner + left),
                           ("SPAN_OUTER_JOIN", inner + left + right)):
            out = self.ask(
                self.SPANS + f"CREATE VIRTUAL TABLE j USING {kind}(a PARTITIONED cpu, "
                             "b PARTITIONED cpu); SELECT ts, dur, cpu, x, y FROM j").splitlines()
            self.assertEqual(out[0], "ts,dur,cpu,x,y")
            self.assertEqual(sorted(out[1:]), sorted(want), kind)

    def test_span_joins_of_moments(self):
        """A row with a dur of 0 meets a row that covers its moment, or that begins then, but not a
        row that ends then."""
        tables = (
            "CREATE TABLE a AS SELECT column1 AS ts, column2 AS dur, 1 AS p, column3 AS x "
            "FROM (VALUES (0, 10, 'A'), (10, 10, 'B'), (20, 5, 'C'), (25, 0, 'Z25'), (30, 0, "
            "'Z30'), (40, 10, 'D'), (70, 0, 'Z70'));"
            "CREATE TABLE b AS SELECT column1 AS ts, column2 AS dur, 1 AS p, column3 AS y "
            "FROM (VALUES (0, 0, 'z0'), (0, 5, 'a'), (5, 0, 'z5'), (12, 20, 'b'), (40, 0, 'z40'), "
            "(45, 0, 'z45'), (50, 0, 'z50'), (70, 0, 'z70'));")
        inner = ["0,0,A,z0", "0,5,A,a", "5,0,A,z5", "12,8,B,b", "20,5,C,b", "25,0,Z25,b",
                 "30,0,Z30,b", "40,0,D,z40", "45,0,D,z45",
                 "70,0,Z70,z70"]
        left = ["5,5,A,", "10,2,B,", "40,5,D,", "45,5,D,"]
        right = ["25,5,,b", "30,2,,b", "50,0,,z50"]
        for kind, want in (("SPAN_JOIN", inner), ("SPAN_LEFT_JOIN", inner + left),
                           ("SPAN_OUTER_JOIN", inner + left + right)):
            out = self.ask(
                tables + f"CREATE VIRTUAL TABLE j USING {kind}(a PARTITIONED p, b PARTITIONED p); "
                         "SELECT ts, dur, x, y FROM j")
            self.assertEqual(sorted(out.splitlines()[1:]), sorted(want), kind)

    def test_span_join_without_partitions(self):
        out = self.ask(
            "CREATE VIEW a AS SELECT 0 AS ts, 10 AS dur, 'p' AS x; CREATE VIEW b AS "
            "SELECT 4 AS ts, 2 AS dur, 7 AS y;"
            "CREATE VIRTUAL TABLE j USING span_join(a, b); SELECT * FROM j")
        self.assertEqual(out, "ts,dur,x,y\n4,2,p,7\n")

    def test_span_join_errors(self):
        for arguments, why in (("a", "expected (a PARTITIONED"),
                               ("a PARTITIONED cpu, b PARTITIONED y", "expected (a"),
                               ("a, nothing", "no such table"),
                               ("a PARTITIONED foo, b PARTITIONED foo", "no column foo"),
                               ("a, a", "same name"),
                               ("a X cpu, b X cpu", "expected (a"),
                               ("a PARTITIONED cpu, b", "same name"),
                               ("moments, moments",
                                "neither moments nor moments has a column dur")):
            self.assertIn(why, self.ask(self.SPANS + "CREATE VIEW moments AS SELECT 0 AS ts;"
                                                     "CREATE VIRTUAL TABLE j "
                                                     f"USING SPAN_JOIN({arguments})", code=1),
                          arguments)
        out = self.ask(
            "CREATE VIEW a AS SELECT 0 AS ts, 1 AS dur, 'x' AS p; CREATE VIEW b AS SELECT 0 AS ts, "
            "1 AS dur;"
            "CREATE VIRTUAL TABLE j USING SPAN_JOIN(a PARTITIONED p, b); SELECT * FROM j", code=1)
        self.assertIn("partitions are whole numbers; one is 'x'", out)

    MIXED = ("CREATE TABLE p AS SELECT column1 AS ts, column2 AS dur, column3 AS utid, column4 AS "
             "a FROM (VALUES (0, 10, 1, 'p1'), (20, 10, 1, 'p2'), (5, 20, 3, 'p3'), (40, -1, 3, "
             "'p4'));"
             "CREATE TABLE u AS SELECT column1 AS ts, column2 AS dur, column3 AS b FROM (VALUES "
             "(2, 4, 'u1'), (8, 14, 'u2'), (35, 10, 'u3'), (50, -1, 'u4'));"
             "CREATE TABLE moments AS SELECT column1 AS ts, column2 AS b FROM (VALUES (2, 'n1'), "
             "(8, 'n2'), (40, 'n3'));")

    def test_span_joins_of_one_partitioned_side(self):
        """The rows of the side without partitions count in each partition of the other side. The
        answers are Perfetto's."""
        inner = ["2,4,1,p1,u1", "8,2,1,p1,u2", "20,2,1,p2,u2", "5,1,3,p3,u1", "8,14,3,p3,u2",
                 "40,-1,3,p4,u3"]
        of_p = ["0,2,1,p1,", "6,2,1,p1,", "22,8,1,p2,", "6,2,3,p3,", "22,3,3,p3,"]
        of_u = ["10,10,1,,u2", "35,10,1,,u3", "50,-1,1,,u4", "2,3,3,,u1", "35,5,3,,u3",
                "40,5,3,,u3", "50,-1,3,,u4"]
        for kind, tables, want in (("SPAN_JOIN", "p PARTITIONED utid, u", inner),
                                   ("SPAN_JOIN", "u, p PARTITIONED utid", inner),
                                   ("SPAN_LEFT_JOIN", "p PARTITIONED utid, u", inner + of_p),
                                   ("SPAN_LEFT_JOIN", "u, p PARTITIONED utid", inner + of_u),
                                   ("SPAN_OUTER_JOIN", "p PARTITIONED utid, u",
                                    inner + of_p + of_u),
                                   ("SPAN_OUTER_JOIN", "u, p PARTITIONED utid",
                                    inner + of_p + of_u)):
            make = (self.MIXED + f"CREATE VIRTUAL TABLE j USING {kind}({tables}); "
                                 "SELECT ts, dur, utid, a, b FROM j")
            self.assertEqual(sorted(self.ask(make).splitlines()[1:]), sorted(want), (kind, tables))
            one = self.ask(make + " WHERE utid = 3").splitlines()[1:]
            self.assertEqual(sorted(one), sorted(row for row in want if row.split(",")[2] == "3"),
                             (kind, tables))
            none = make.replace("SELECT ts, dur, utid, a", "DELETE FROM p; SELECT ts, dur, utid, a")
            self.assertEqual(self.ask(none).splitlines()[1:], [], "no partition at all")

    def test_span_join_with_moments(self):
        out = self.ask(
            self.MIXED + "CREATE VIRTUAL TABLE j USING SPAN_JOIN(p PARTITIONED utid, moments); "
                         "SELECT ts, dur, utid, a, b FROM j")
        self.assertEqual(out.splitlines()[1:],
                         ["2,0,1,p1,n1", "8,0,1,p1,n2", "8,0,3,p3,n2", "40,-1,3,p4,n3"])

    def test_modules(self):
        out = self.ask(
            "INCLUDE PERFETTO MODULE slices.with_context; SELECT count(*) AS n FROM thread_slice")
        self.assertEqual(out, "n\n13\n")
        self.assertEqual(
            self.ask("INCLUDE PERFETTO MODULE v8.jit; INCLUDE PERFETTO MODULE stack_trace.jit; "
                     "SELECT count(*) AS n FROM _v8_js_code LEFT JOIN _jit_code "
                     "USING (jit_code_id)"), "n\n0\n")
        self.assertIn("no module android.startups",
                      self.ask("include perfetto module android.startups;", code=1))

    def test_errors(self):
        for sql, why in (("CREATE PERFETTO THING t",
                          "TABLE, VIEW, FUNCTION, MACRO or INDEX is expected"),
                         ("CREATE PERFETTO TABLE", "a name is expected"),
                         ("CREATE PERFETTO TABLE t SELECT 1", "AS is expected"),
                         ("CREATE PERFETTO FUNCTION f(", "a name is expected"),
                         ("CREATE PERFETTO FUNCTION f() AS SELECT 1", "RETURNS"),
                         ("CREATE PERFETTO FUNCTION f() RETURNS LONG AS SELEC 1", "syntax"),
                         ("CREATE PERFETTO FUNCTION f(a LONG) RETURNS TABLE(x",
                          "a type is expected"),
                         ("INCLUDE PERFETTO MODULE", "the name of a module is expected"),
                         ("CREATE PERFETTO VIEW v AS SELECT (", "incomplete")):
            with self.subTest(sql):
                self.assertIn(why, self.ask(sql, code=1))


class Terminal:
    """The program at a terminal of its own, which the test uses like a person."""

    def __init__(self, *argv, **env):
        self.said = ""
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.execve(argv[0], [str(a) for a in argv],
                      {**os.environ, "TERM": "vt100", "PAGER": "cat", **env})

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, pattern, timeout_s=60):
        """The output up to the pattern; output after the pattern is kept for the next call."""
        end = time.monotonic() + timeout_s
        while not (found := re.search(pattern, self.said)):
            ready = select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]
            if not ready:
                raise AssertionError(f"{pattern} does not come: {self.said!r}")
            try:
                chunk = os.read(self.fd, 4096)
            except OSError:
                chunk = b""
            if not chunk:
                raise AssertionError(f"the end came before {pattern}: {self.said!r}")
            self.said += chunk.decode(errors="replace")
        self.said = self.said[found.end():]
        return found.string[:found.end()]

    def end(self, say=""):
        """Ends the program. Returns its exit code. Reads the rest of the output, so that the
        program does not wait for the terminal.

        `say` is typed once the program has the terminal in its own mode: only in this mode Ctrl-D
        counts.
        """
        if say:
            lib.wait_for(lambda: not termios.tcgetattr(self.fd)[3] & termios.ICANON,
                         "the terminal's mode")
            self.type(say)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    os.read(self.fd, 4096)
                except OSError:
                    time.sleep(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("mmsql does not end")


class Shell(Case):
    has_editor = "libedit" in subprocess.run(["ldd", lib.MMSQL], capture_output=True,
                                             text=True).stdout

    def shell(self):
        return Terminal(lib.MMSQL, "query", self.db, XDG_STATE_HOME=str(self.dir / "state"))

    def test_question_and_answer(self):
        shell = self.shell()
        shell.until("mmsql> ")
        shell.type("SELECT count(*)\n")
        shell.until(r"\.\.\.> ")
        shell.type("AS n FROM slice;\n")
        self.assertIn("13", shell.until(r"13\s+mmsql> "))
        shell.type(".mode json\n")
        shell.until("mmsql> ")
        shell.type("SELECT 7 AS seven;\n")
        shell.until(r'\{"seven":7\}')
        shell.type("SELECT nonsense;\n")
        shell.until("no such column: nonsense")
        shell.type(".timer on\n")
        shell.until("mmsql> ")
        shell.type("SELECT 1;\n")
        shell.until(r"\d\.\d{3} s")
        shell.type(".bogus\n")
        shell.until("not a command")
        shell.type(".quit\n")
        self.assertEqual(shell.end(), 0)

    def test_completion_and_history(self):
        if not self.has_editor:
            self.skipTest("built without libedit")
        shell = self.shell()
        shell.until("mmsql> ")
        shell.type("SELECT count(*) AS n FROM page_residency_ro\t;\n")
        shell.until(r"und +;")
        shell.until(r"\b0\s+mmsql> ")
        shell.type("SELECT allocation_ord\t FROM reclaim_epi\t LIMIT 1;\n")
        shell.until(r"\.\.\.> |mmsql> ")
        shell.type("\x1b[A\x1b[A\n")  # up, up
        shell.until(r"page_residency_round[^>]*mmsql> ")
        self.assertEqual(shell.end(say="\x04"), 0)
        history = self.dir / "state" / "mmtrace" / "query_history"
        self.assertIn("page_residency_round", history.read_text())
        self.assertEqual(history.stat().st_mode & 0o77, 0)
        again = self.shell()
        again.until("mmsql> ")
        again.type("\x1b[A\n")
        again.until("page_residency_round")
        self.assertEqual(again.end(say="\x04"), 0)

    @lib.needs_root
    def test_a_history_that_another_user_leads_elsewhere(self):
        """Root's HOME may be another user's, as with sudo -E."""
        if not self.has_editor:
            self.skipTest("built without libedit")
        mine, theirs = self.dir / "mine", self.dir / "theirs"
        mine.write_text("of root alone")
        mine.chmod(0o640)
        (theirs / "mmtrace").mkdir(parents=True)
        (theirs / "mmtrace" / "query_history").symlink_to(mine)
        (self.dir / "led").symlink_to(self.dir / "elsewhere")
        (self.dir / "elsewhere").mkdir()
        for path in (theirs, theirs / "mmtrace", self.dir / "led"):
            os.chown(path, 4711, 4711, follow_symlinks=False)
        for state, said in ((theirs, "theirs belongs to another user"),
                            (self.dir / "led", "led is a link of another user")):
            with self.subTest(state=state):
                shell = Terminal(lib.MMSQL, "query", self.db, XDG_STATE_HOME=str(state))
                shell.until(rf"no history: \S*{said}[^>]*mmsql> ")
                shell.type("SELECT 7;\n")
                shell.until(r"7\s+mmsql> ")
                self.assertEqual(shell.end(say="\x04"), 0)
        self.assertEqual((mine.read_text(), mine.stat().st_mode & 0o777), ("of root alone", 0o640))
        self.assertEqual(os.listdir(self.dir / "elsewhere"), [])

    def test_a_statement_of_several_lines_comes_back_as_one(self):
        if not self.has_editor:
            self.skipTest("built without libedit")
        shell = self.shell()
        shell.until("mmsql> ")
        shell.type("SELECT 'ä' ||\n")
        shell.until(r"\.\.\.> ")
        shell.type("'ö' AS both;\n")
        shell.until(r"äö\s+mmsql> ")
        shell.type("\x1b[A\n")
        shell.until(r"SELECT 'ä' \|\| 'ö' AS both;")
        shell.until(r"äö\s+mmsql> ")
        shell.type("CREATE PERFETTO TABLE made AS SELECT 6 * 7 AS fortytwo;\n")
        shell.until("mmsql> ")
        shell.type("SELECT fortyt\t + 100 FROM made;\n")
        shell.until(r"142\s+mmsql> ")
        shell.type(".quit\n")
        self.assertEqual(shell.end(), 0)

    def test_many_rows_are_not_held(self):
        done = lib.run(lib.MMSQL, "query", self.db,
                       "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t "
                       "WHERE n < 1000000) SELECT n, 'text' AS text FROM t", timeout_s=60)
        lines = done.stdout.splitlines()
        self.assertEqual((len(lines), lines[0].split(), lines[-1].split()),
                         (1000002, ["n", "text"], ["1000000", "text"]))

    def test_interrupt_ends_the_statement(self):
        shell = self.shell()
        shell.until("mmsql> ")
        shell.type(
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) "
            "FROM t;\n")
        states.wait_for_cpu(shell.pid, 0.2)
        shell.type("\x03")
        shell.until("interrupted")
        shell.until("mmsql> ")
        shell.type("SELECT 40 + 2;\n")
        shell.until("42")
        shell.type(".quit\n")
        self.assertEqual(shell.end(), 0)

    def test_the_pager_has_the_limits_of_the_user(self):
        """The limit on the size of data is for the conversion only."""
        trace = lib.ROOT / "tests" / "golden" / "mm_pressure.pftrace"
        shell = Terminal(lib.MMSQL, "query", "-q", "--max-memory", "64m", trace,
                         XDG_STATE_HOME=str(self.dir / "state"),
                         PAGER="echo data $(ulimit -d); cat")
        shell.until("mmsql> ")
        shell.type("SELECT 'se' || 'ven';\n")
        own = resource.getrlimit(resource.RLIMIT_DATA)[0]
        self.assertIn("data " + ("unlimited" if own < 0 else str(own >> 10)), shell.until("seven"))
        shell.until("mmsql> ")
        shell.type(".quit\n")
        self.assertEqual(shell.end(), 0)

    def test_pipe(self):
        done = lib.run(lib.MMSQL, "query", "--csv", self.db, input="SELECT 1 AS a;\nSELECT 2\nAS b")
        self.assertEqual((done.returncode, done.stdout), (0, "a\n1\n\nb\n2\n"))
        done = lib.run(lib.MMSQL, "query", self.db, input="SELECT x;\n")
        self.assertEqual(done.returncode, 1)

    def test_commands_after_options(self):
        asked = ".tables\n.tables process\n.schema thread\n.tables process\n"
        plain = lib.run(lib.MMSQL, "query", self.db, input=asked)
        self.assertEqual((plain.returncode, plain.stderr), (0, ""))
        for text in (r"(?m)^thread +\S", r"(?m)^ *start_ts +\S"):
            self.assertRegex(plain.stdout, text)
        for options in (["-q"], ["--csv", "-q"], ["--max-memory", "4G"]):
            done = lib.run(lib.MMSQL, "query", *options, self.db, input=asked)
            self.assertEqual((done.returncode, done.stdout), (0, plain.stdout), options)


class Tables(Case):
    def test_every_table_and_view_is_explained(self):
        text = lib.run(lib.MMSQL, "tables").stdout
        with sqlite3.connect(self.db) as handle:
            names = [name for name, in handle.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND "
                "name NOT GLOB '[_s]*' AND name NOT GLOB 'ftrace_*'")]
        self.assertGreater(len(names), 50)
        for name in names:
            self.assertRegex(text, rf"(?m)^{name} +\S")


if __name__ == "__main__":
    unittest.main()
