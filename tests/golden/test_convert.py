# SPDX-License-Identifier: Apache-2.0
"""Traces that are damaged, and other ways in and out of mmsql.

usage: test_convert.py MMSQL

fail/NAME.pftrace is converted; the messages must be fail/NAME.stderr (with TRACE in place of the
trace's path), the exit code 1, and a database must be there unless nothing at all could be read.
"""
import gzip
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from protowire import field  # noqa: E402 (found by the line above)

HERE = pathlib.Path(__file__).resolve().parent
MMSQL = None


def run(*argv, **options):
    return subprocess.run([MMSQL, *map(str, argv)], capture_output=True, timeout=60, **options)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.tmp = pathlib.Path(self.folder.name)
        self.db = self.tmp / "t.db"

    def tearDown(self):
        left = sorted(f.name for f in self.tmp.iterdir() if f.name.startswith("t.db."))
        self.folder.cleanup()
        self.assertEqual(left, [], "temporary files are left")

    def convert(self, trace, *argv, code=0, **options):
        done = run("convert", "-q", trace, "-o", self.db, *argv, **options)
        self.assertEqual(done.returncode, code, done.stderr.decode())
        return done.stderr.decode()

    def query(self, sql):
        with sqlite3.connect(f"file:{self.db}?mode=ro", uri=True) as db:
            return db.execute(sql).fetchall()

    def dump(self):
        with sqlite3.connect(f"file:{self.db}?mode=ro", uri=True) as db:
            # All but the source of the trace, and the time that the conversion took.
            sources = ('INSERT INTO "trace"', 'INSERT INTO "input_file"')
            return "\n".join(line for line in db.iterdump() if not line.startswith(sources)
                             and "parse_trace_duration_ns" not in line)


class Bugreport(Case):
    """The files of a bugreport beside its traces, with a mistake in most of them."""
    tables = ("proc_snapshot", "proc_vmstat", "proc_meminfo", "proc_zoneinfo", "proc_buddyinfo",
              "proc_slabinfo",
              "proc_pressure", "proc_swap", "kernel_log")

    def pack(self, prefix=""):
        path = self.db.with_name("report.zip")
        with zipfile.ZipFile(path, "w") as archive:
            for file in sorted((HERE / "bugreport").rglob("*")):
                if file.is_file() and file.name != "expected":
                    archive.write(file, prefix + str(file.relative_to(HERE / "bugreport")))
        return path

    def rows(self):
        return "".join(f"# {table}\n" + "".join("|".join(map(str, row)) + "\n"
                                                for row in self.query(f"SELECT * FROM {table}"))
                       for table in self.tables)

    def test_tables(self):
        path = self.pack()
        said = self.convert(path, code=1)
        self.assertEqual((said + self.rows()).replace(str(path), "REPORT"),
                         (HERE / "bugreport" / "expected").read_text())

    def test_below_a_folder(self):
        """Like dumpstate's own folder in another archive: only FS/proc has the moment."""
        self.convert(self.pack("phone/"), code=1)
        self.assertEqual(self.query(
            "SELECT count(*), count(DISTINCT proc_snapshot_id) FROM proc_vmstat"), [(3, 1)])

    def test_loose_files(self):
        folder = HERE / "bugreport" / "FS" / "proc"
        self.convert(folder / "vmstat", folder / "pressure" / "memory", code=1)
        self.assertEqual(self.query("SELECT path, ts FROM proc_snapshot"),
                         [(str(HERE / "bugreport"), None)], "as unpacked")

    def test_a_second_file_of_the_same_name(self):
        path = self.pack()
        with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
            warnings.simplefilter("ignore")
            archive.writestr("FS/proc/vmstat", "nr_free_pages 1\n")
        said = self.convert(path, code=1)
        self.assertIn("FS/proc/vmstat: line 1: there is another such file of the same moment", said)
        self.assertEqual(self.query("SELECT count(*) FROM proc_vmstat"), [(3,)])


class Damage(Case):
    nothing_to_read = {"empty", "random", "text", "zeros"}

    def test_messages(self):
        for trace in sorted((HERE / "fail").glob("*.pftrace")):
            with self.subTest(trace.stem):
                self.db.unlink(missing_ok=True)
                said = self.convert(trace, code=1).replace(str(trace), "TRACE")
                wanted = [file.read_text() for file in trace.parent.glob(f"{trace.stem}.*stderr")]
                self.assertIn(said, wanted)  # builds differ in what they can inflate
                self.assertEqual(self.db.exists(), trace.stem not in self.nothing_to_read)
                if self.db.exists():
                    self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])
                    self.assertTrue(self.query("SELECT * FROM clock_snapshot"))

    def test_packets_after_a_damaged_one_are_kept(self):
        self.convert(HERE / "fail/packet.pftrace", code=1)
        damaged = "SELECT value FROM stats WHERE name = 'mmsql_packets_damaged'"
        self.assertEqual(self.query(damaged), [(2,)])
        self.assertTrue(self.query("SELECT 1 FROM metadata WHERE name = 'system_release'"))

    def test_the_place_of_a_cut_is_in_the_database(self):
        said = self.convert(HERE / "fail/cut.pftrace", code=1)
        offset = "SELECT value FROM stats WHERE name = 'mmsql_truncated_at'"
        self.assertIn(f"offset {self.query(offset)[0][0]},", said)

    def test_cut_at_every_byte(self):
        """Never a crash, and never more rows than the whole trace has."""
        for name in ("counters_tracks", "heap_continuous"):
            trace = (HERE / f"{name}.pftrace").read_bytes()
            self.convert(HERE / f"{name}.pftrace")
            n_whole = self.query("SELECT count(*) FROM clock_snapshot")[0][0]
            for size in range(1, len(trace)):
                self.db.unlink(missing_ok=True)
                done = run("convert", "-q", "-", "-o", self.db, input=trace[:size])
                self.assertIn(done.returncode, (0, 1), f"{name} cut at {size}")
                if self.db.exists():
                    n = self.query("SELECT count(*) FROM clock_snapshot")[0][0]
                    self.assertLessEqual(n, n_whole)


class Inputs(Case):
    def setUp(self):
        super().setUp()
        self.trace = HERE / "sched_deflate.pftrace"
        self.convert(self.trace)
        self.want = self.dump()

    def test_pipe(self):
        self.convert("-", input=self.trace.read_bytes())
        self.assertEqual(self.dump(), self.want)

    def test_gzip(self):
        packed = self.tmp / "packed.gz"
        packed.write_bytes(gzip.compress(self.trace.read_bytes()))
        self.convert(packed)
        without_uuid = "SELECT count(*) FROM metadata WHERE name = 'trace_uuid'"
        self.assertEqual(self.query(without_uuid), [(1,)])
        self.assertEqual(self.dump(), self.want)

    def test_gzip_with_something_behind(self):
        packed = gzip.compress(self.trace.read_bytes())
        self.convert("-", input=packed + bytes(20))
        self.assertEqual(self.dump(), self.want)
        said = self.convert("-", input=packed + bytes(20) + b"more", code=1)
        self.assertIn(f"the 4 bytes from offset {len(packed) + 20} on", said)
        self.assertEqual(self.dump(), self.want)

    def test_gzip_with_nothing_in_it(self):
        self.db.unlink()
        packed = gzip.compress(b"")
        self.assertEqual(self.convert("-", input=packed, code=1), "mmsql: standard input: empty\n")
        self.assertIn("gzip data ends or breaks at offset 15: truncated",
                      self.convert("-", input=packed[:15], code=1))
        self.assertFalse(self.db.exists())

    def test_packed_and_plain_one_after_the_other(self):
        data = self.trace.read_bytes()
        packed = gzip.compress(data)
        said = self.convert("-", input=packed + data, code=1)
        self.assertIn(f"the {len(data)} bytes from offset {len(packed)} on", said)
        self.assertEqual(self.dump(), self.want)
        said = self.convert("-", input=data + packed, code=1)
        self.assertIn(f"breaks at offset {len(data)}, ", said)
        rows = "SELECT count(*), max(ts) FROM ftrace_event"
        got = self.query(rows)
        self.convert(self.trace)
        self.assertEqual(got, self.query(rows))

    def test_gzip_of_several_members_through_a_pipe(self):
        data = self.trace.read_bytes()
        self.convert("-", input=gzip.compress(data[:5000]) + gzip.compress(data[5000:]))
        self.assertEqual(self.dump(), self.want)

    def test_traces_one_after_the_other(self):
        n = self.query("SELECT count(*) FROM ftrace_event")[0][0]
        self.convert("-", input=self.trace.read_bytes() * 2)
        # Each compact waking needs a switch before; in the doubled trace it has one.
        self.assertGreaterEqual(self.query("SELECT count(*) FROM ftrace_event")[0][0], 2 * n)

    def test_the_same_twice(self):
        self.convert(self.trace)
        self.assertEqual(self.dump(), self.want)


class Hostile(Case):
    START = field(1, field(8, 1) + field(10, 1) + field(13, 1))

    @staticmethod
    def instant(annotation, name=b"event"):
        event = field(9, 3) + field(23, name) + field(4, annotation)
        return field(1, field(8, 10) + field(10, 1) + field(11, event))

    @staticmethod
    def ftrace(event):
        return field(1, field(10, 1) + field(1, field(1, 0) + field(2, event)))

    def cut(self):
        return self.query("SELECT value FROM stats WHERE name = 'mmsql_debug_annotations_cut'")[0][
            0]

    def test_text_that_is_no_utf8_can_be_read(self):
        self.convert("-", input=self.START + self.instant(
            field(10, b"\xff") + field(6, b"\x80ab\xe3\x81\x82"), b"caf\xc3"))
        self.assertEqual(self.query("SELECT name FROM slice"), [("caf\ufffd",)])
        self.assertEqual(self.query("SELECT key, string_value FROM args WHERE key LIKE 'debug.%'"),
                         [("debug.\ufffd", "\ufffdab\u3042")])

    def test_keys_of_annotations_are_bounded(self):
        values = b"".join(field(12, field(3, i)) for i in range(4096))
        self.convert("-", input=self.START + self.instant(field(10, b"k" * 100000) + values))
        self.assertEqual(self.cut(), 1)
        self.assertLess(self.query("SELECT sum(length(key)) FROM args")[0][0], 1 << 20)

    def test_deep_annotations_are_counted(self):
        value = field(3, 1)
        for _ in range(12):
            value = field(11, field(10, b"a") + value)
        self.convert("-", input=self.START + self.instant(field(10, b"r") + value))
        self.assertEqual(self.cut(), 0)
        for _ in range(1000):
            value = field(11, field(10, b"a") + value)
        self.convert("-", input=self.START + self.instant(field(10, b"r") + value))
        self.assertEqual(self.cut(), 1)

    def test_fields_of_another_type_are_no_values(self):
        switch = field(1, b"from") + field(2,
                                           b"no number") + field(3, 7) + field(5, 8) + field(6, 9)
        self.convert("-", input=self.ftrace(field(1, 100) + field(2, 5) + field(4, switch)))
        self.assertEqual(self.query("SELECT key, int_value, string_value FROM args"),
                         [("prev_comm", None, "from"), ("prev_prio", 7, None),
                          ("next_pid", 9, None)])


class Outputs(Case):
    def test_fields_without_a_packet_are_no_trace(self):
        said = self.convert("-", input=b"\x10\x01", code=1)
        self.assertIn("not a Perfetto trace", said)
        self.assertFalse(self.db.exists())

    def test_a_signal_ends_the_wait_for_standard_input(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen([MMSQL, "convert", "-", "-o", self.db], stdin=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as child:
                child.stdin.write(b"\x0a\x02")
                child.stdin.flush()
                while not self.waits_for_input(child.pid):
                    time.sleep(0.01)
                child.send_signal(number)
                self.assertEqual(child.wait(20), 1)
                self.assertIn(b"interrupted; nothing was written", child.stderr.read())
            self.assertFalse(self.db.exists())

    def test_messages_that_nobody_reads_leave_nothing_behind(self):
        reader, writer = os.pipe()
        os.close(reader)
        with subprocess.Popen([MMSQL, "convert", HERE / "fail/text.pftrace", "-o", self.db],
                              stderr=writer) as child:
            os.close(writer)
            self.assertEqual(child.wait(20), 1)

    @staticmethod
    def waits_for_input(pid):
        """Whether the signal handlers are set; reading comes right after."""
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        caught = int(next(l for l in status.splitlines() if l.startswith("SigCgt:")).split()[1], 16)
        return caught >> (signal.SIGHUP - 1) & 1

    def test_other_files_are_left_alone(self):
        for content in (b"notes\n", b"SQLite format 3\0" + bytes(100)):
            self.db.write_bytes(content)
            said = self.convert(HERE / "mm_pressure.pftrace", code=1)
            self.assertIn("exists and is not a database made by mmsql", said)
            self.assertEqual(self.db.read_bytes(), content)

    def test_a_failed_conversion_leaves_the_old_database(self):
        self.convert(HERE / "counters_tracks.pftrace")
        before = self.db.read_bytes()
        self.convert(HERE / "fail/text.pftrace", code=1)
        self.assertEqual(self.db.read_bytes(), before)

    def test_usage(self):
        for argv in ((), ("convert",), ("convert", "a"), ("convert", "a", "b"),
                     ("convert", "--bogus"), ("query",), ("query", "a", "b", "c"), ("unknown",)):
            done = run(*argv)
            self.assertEqual(done.returncode, 2, argv)
            self.assertIn(b"mmsql", done.stderr)
        for argv in (("--help",), ("convert", "--help"), ("query", "--help"), ("tables", "--help")):
            done = run(*argv)
            self.assertEqual((done.returncode, done.stderr), (0, b""), argv)
            self.assertIn(b"usage: mmsql", done.stdout)

    def test_every_public_column_is_there(self):
        """Tables and views with the columns that Perfetto documents, in that order, also when
        empty."""
        self.convert(HERE / "counters_tracks.pftrace")
        want = {}
        for line in (HERE / "public_columns.csv").read_text().splitlines()[1:]:
            table, column = line.split(",")[:2]
            want.setdefault(table, []).append(column)
        for table, columns in want.items():
            have = [row[1] for row in self.query(f"PRAGMA table_xinfo({table})")]
            self.assertEqual(have, columns, table)

    def on_terminal(self, *argv):
        ours, its = os.openpty()
        command = [MMSQL, "convert", HERE / "mm_pressure.pftrace", "-o", self.db, *argv]
        with open(ours, "rb", buffering=0) as terminal:
            done = subprocess.run(command, stderr=its, timeout=60, check=False)
            os.write(its, b"END")
            os.close(its)
            said = b""
            while not said.endswith(b"END"):
                said += terminal.read(4096)
        self.assertEqual(done.returncode, 0)
        return said

    def test_progress_is_for_terminals(self):
        said = self.on_terminal()
        self.assertRegex(said, rb"\rconverting \[#* *\] +\d+ %")
        self.assertIn(b"\r\x1b[K", said)  # erased at the end of the conversion
        self.assertEqual(self.on_terminal("-q"), b"END")
        self.assertNotIn(b"converting",
                         run("convert", HERE / "mm_pressure.pftrace", "-o", self.db).stderr)

    def test_tables_are_explained(self):
        done = run("tables", "ftrace_event")
        self.assertEqual(done.returncode, 0)
        for column in (b"ts", b"utid", b"arg_set_id"):
            self.assertIn(b"  " + column + b" ", done.stdout)
        self.assertEqual(run("tables", "ftrace_evnt").returncode, 1)

    def test_views_are_explained(self):
        self.convert(HERE / "mm_pressure.pftrace")
        listed = run("tables").stdout.decode()
        for view, in self.query("SELECT name FROM sqlite_master WHERE type = 'view'"):
            if not view.startswith("ftrace_") or view == "ftrace_event":
                self.assertRegex(listed, rf"(?m)^{view} +\S")
            said = run("tables", view).stdout.decode()
            with sqlite3.connect(self.db) as db:
                for column in [r[1] for r in db.execute(f"PRAGMA table_info({view})")]:
                    self.assertRegex(said, rf"(?m)^  {column} +\S+ +\S", view)


class Selection(Case):
    """--tables and --no-... leave out what they name; the rest stays the same."""

    def counts(self, *options):
        self.convert(HERE / "mm_pressure.pftrace", *options)
        names = ("slice", "counter", "process", "args", "ftrace_event", "sched_slice", "stats",
                 "trace_bounds")
        return {name: self.query(f"SELECT count(*) FROM {name}")[0][0] for name in names}

    def setUp(self):
        super().setUp()
        self.all = self.counts()

    def expect(self, options, kept):
        self.assertEqual(self.counts(*options),
                         {name: n if name in kept else 0 for name, n in self.all.items()})

    def test_tables_are_picked(self):
        self.expect(["--tables", "counter"], {"counter", "stats", "trace_bounds"})
        self.expect(["--tables", "process,ftrace_event"],
                    {"process", "ftrace_event", "stats", "trace_bounds"})

    def test_everything_but(self):
        everything = set(self.all)
        self.expect(["--no-sched"], everything - {"sched_slice"})
        self.expect(["--no-args"], everything - {"args"})
        self.assertEqual(self.query("SELECT count(*) FROM slice WHERE arg_set_id IS NOT NULL"),
                         [(0,)])
        some = self.counts("--no-ftrace")
        self.assertEqual(some["ftrace_event"], 0)
        self.assertEqual(some["slice"], self.all["slice"])
        self.assertGreater(self.all["args"], some["args"])
        self.assertGreater(some["args"], 0)

    def test_views_bring_what_they_need(self):
        rows = "SELECT * FROM ftrace_mm_vmscan_kswapd_wake ORDER BY id"
        self.convert(HERE / "mm_pressure.pftrace")
        want = [row[1:4] + row[5:] for row in self.query(rows)]
        self.assertGreater(len(want), 0)
        self.convert(HERE / "mm_pressure.pftrace", "--tables", "ftrace_mm_vmscan_kswapd_wake")
        self.assertEqual([row[1:4] + row[5:] for row in self.query(rows)], want)
        self.assertEqual(self.query("SELECT count(*) FROM slice"), [(0,)])

    def test_misspelt_names_are_refused(self):
        done = run("convert", str(HERE / "mm_pressure.pftrace"), "-o", str(self.db), "--tables",
                   "counter,slise")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"did you mean 'slice'", done.stderr)


class Query(Case):
    sql = "SELECT 1 AS n, NULL AS missing, 2.5 AS r, 'a,\"b\"' AS t, x'00ff' AS b UNION ALL " \
          "SELECT -7, 'x', 1e100, 'c', NULL"

    def setUp(self):
        super().setUp()
        self.convert(HERE / "mm_pressure.pftrace")

    def ask(self, *argv, code=0, **options):
        done = run("query", *argv, text=True, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code else done.stdout

    def test_table(self):
        self.assertEqual(self.ask(self.db, self.sql).splitlines(), [
            "n   missing  r       t      b",
            "--  -------  ------  -----  -------",
            " 1  NULL        2.5  a,\"b\"  x'00ff'",
            "-7  x        1e+100  c      NULL",
        ])

    def test_csv(self):
        self.assertEqual(self.ask("--csv", self.db, self.sql),
                         'n,missing,r,t,b\n1,,2.5,"a,""b""",00ff\n-7,x,1e+100,c,\n')

    def test_json(self):
        self.assertEqual(json.loads(self.ask("--json", self.db, self.sql)), [
            {"n": 1, "missing": None, "r": 2.5, "t": 'a,"b"', "b": "00ff"},
            {"n": -7, "missing": "x", "r": 1e100, "t": "c", "b": None},
        ])
        self.assertEqual(json.loads(self.ask("--json", self.db, "SELECT 1 WHERE 0")), [])

    def test_long_text_is_cut_only_in_tables(self):
        sql = "SELECT replace(hex(zeroblob(300)), '00', 'é') AS t"
        self.assertEqual(max(map(len, self.ask(self.db, sql).splitlines())), 100)
        self.assertIn("é" * 300, self.ask("--csv", self.db, sql))

    def test_sql_from_file_and_standard_input(self):
        file = self.tmp / "q.sql"
        file.write_text("-- a comment\nSELECT 1 AS a;\nSELECT 2 AS b;\n")
        want = "a\n1\n\nb\n2\n"
        self.assertEqual(self.ask("--csv", self.db, "-f", file), want)
        self.assertEqual(self.ask("--csv", self.db, "-", input=file.read_text()), want)

    several = (
        "SELECT 1 a UNION SELECT 2; CREATE TABLE x(y); SELECT y FROM x; SELECT 3 c; -- the end")

    def test_several_result_sets_are_apart(self):
        self.assertEqual(self.ask("--csv", self.db, self.several), "a\n1\n2\n\ny\n\nc\n3\n")
        self.assertEqual(self.ask(self.db, self.several), "a\n-\n1\n2\n\ny\n-\n\nc\n-\n3\n")
        self.assertEqual(self.ask("--csv", self.db, input=self.several), "a\n1\n2\n\ny\n\nc\n3\n")

    def test_several_result_sets_in_json(self):
        self.assertEqual(json.loads(self.ask("--json", self.db, self.several)),
                         [[{"a": 1}, {"a": 2}], [], [{"c": 3}]])
        for alone in ("SELECT 1 a;; -- one", "SELECT 1 a; CREATE TABLE x(y)",
                      "CREATE TABLE x(y); SELECT 1 a"):
            self.assertEqual(json.loads(self.ask("--json", self.db, alone)), [{"a": 1}], alone)
        large = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) " \
                "SELECT printf('%01000d', i) v FROM n"
        first, second = json.loads(self.ask("--json", self.db, f"{large}; {large} WHERE 0"))
        self.assertEqual([int(row["v"]) for row in first], list(range(1, 2001)))
        self.assertEqual(second, [])

    def test_json_is_whole_if_a_later_statement_fails(self):
        for sql, want in (("SELECT 1 a; SELECT nope", [{"a": 1}]),
                          ("SELECT 1 a; SELECT 2 b; SELECT nope", [[{"a": 1}], [{"b": 2}]])):
            done = run("query", "--json", self.db, sql, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(json.loads(done.stdout), want)

    def test_json_lines(self):
        said = self.ask("--json-lines", self.db, self.several)
        self.assertEqual(said, '{"a":1}\n{"a":2}\n\n\n{"c":3}\n')
        rows = [json.loads(line)
                for line in self.ask("--json-lines", self.db, self.sql).splitlines()]
        self.assertEqual(rows, json.loads(self.ask("--json", self.db, self.sql)))

    def test_first_json_result_set_that_cannot_be_held_back(self):
        done = run("query", "--json", self.db, self.several, text=True,
                   env={"TMPDIR": "/nonexistent"})
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("temporary file in /nonexistent: No such file", done.stderr)

    def test_errors_say_where(self):
        said = self.ask(self.db, "SELECT 1;\nSELECT nme FROM slice", code=1)
        self.assertIn("no such column: nme", said)
        if sqlite3.sqlite_version_info >= (3, 38):
            line, caret = said.splitlines()[1:3]
            self.assertIn("line 2", line)
            self.assertEqual(line[caret.index("^"):][:3], "nme")

    def test_nothing_can_be_changed(self):
        before = self.db.read_bytes()
        self.assertIn("readonly", self.ask(self.db, "DELETE FROM counter", code=1))
        self.assertEqual(self.db.read_bytes(), before)

    def test_not_a_database(self):
        self.assertIn("not a database", self.ask(HERE / "mm_pressure.cfg", "SELECT 1", code=1))
        self.assertIn("unable to open", self.ask(self.tmp / "none.db", "SELECT 1", code=1))


if __name__ == "__main__":
    MMSQL = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
