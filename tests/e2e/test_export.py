# SPDX-License-Identifier: Apache-2.0
"""mmsql export: files have the rows of a query and are whole, and names lead nowhere else."""
import csv
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import unittest

import lib
import strangers

GOLDEN = lib.ROOT / "tests" / "golden"
TRACE = GOLDEN / "mm_pressure.pftrace"
SLOW = ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500000) "
        "SELECT count(*) FROM n")


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="export-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared, ignore_errors=True)
        cls.db = cls.shared / "t.db"
        done = lib.run(lib.MMSQL, "convert", "-q", TRACE, "-o", cls.db)
        if done.returncode:
            raise AssertionError(done.stderr)

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="export-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def export(self, *argv, code=0, **options):
        done = lib.run(lib.MMSQL, "export", *argv, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def rows(self, sql):
        with sqlite3.connect(self.db) as handle:
            answer = handle.execute(sql)
            return [column[0] for column in answer.description], answer.fetchall()

    def test_csv_of_a_table_has_every_row(self):
        names, rows = self.rows("SELECT * FROM counter")
        self.export(self.db, "counter", "-o", self.dir / "c.csv")
        with open(self.dir / "c.csv", newline="", encoding="utf-8") as file:
            found = list(csv.reader(file))
        self.assertEqual(found[0], names)
        self.assertEqual(len(found) - 1, len(rows))
        self.assertEqual([row[0] for row in found[1:]], [str(row[0]) for row in rows])
        at = names.index("value")
        self.assertEqual([float(row[at]) for row in found[1:]], [row[at] for row in rows])

    def test_systrace_is_read_as_the_same_events(self):
        """The times of systrace have microseconds."""
        sql = "SELECT name, cpu, utid IS NULL, ts / 1000 FROM ftrace_event ORDER BY ts, name, cpu"
        text = self.dir / "events.txt"
        self.export(TRACE, "--format", "systrace", "-o", text)
        lines = text.read_text().splitlines()
        self.assertEqual(lines[0], "# tracer: nop")
        events = [lib.run(lib.MMSQL, "query", "--csv", path, sql).stdout for path in (TRACE, text)]
        self.assertGreater(len(events[0].splitlines()), 1000)
        self.assertEqual(sorted(events[1].splitlines()), sorted(events[0].splitlines()))
        self.export(TRACE, "--format", "systrace", "--max-rows", "7", "-o", text)
        self.assertEqual(text.read_text().splitlines(), lines[:2 + 7])

    def test_systrace_without_events(self):
        text = self.dir / "events.txt"
        counters = GOLDEN / "counters_tracks.pftrace"
        done = self.export(counters, "--format", "systrace", "-o", text, code=1)
        self.assertIn("the trace has no kernel events (linux.ftrace records them)", done.stderr)
        self.assertFalse(text.exists())
        for more in (("counter",), ("--folder", self.dir / "f")):
            done = self.export(TRACE, "--format", "systrace", *more, code=2)
            self.assertIn("no table, no SQL and no --folder goes with it", done.stderr)

    def test_lines_of_a_view_are_json(self):
        names, rows = self.rows("SELECT * FROM process ORDER BY upid")
        done = self.export(self.db, "SELECT * FROM process ORDER BY upid", "--format", "jsonl")
        found = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(found, [dict(zip(names, row)) for row in rows])
        self.assertGreater(len(found), 3)

    def test_a_trace_and_the_library(self):
        sql = "INCLUDE PERFETTO MODULE slices.with_context; SELECT count(*) AS n FROM thread_slice"
        self.assertRegex(self.export(TRACE, sql).stdout, r"^n\n\d+\n$")

    def test_rows_are_bounded(self):
        self.assertEqual(self.export(self.db, "counter", "--max-rows", 3).stdout.count("\n"), 4)
        lines = self.export(self.db, "counter", "--max-rows", 3, "--format", "jsonl").stdout
        self.assertEqual(lines.count("\n"), 3)

    def test_a_folder_has_each_table_with_rows(self):
        folder = self.dir / "a" / "b"
        self.export(self.db, "--folder", folder)
        filled = {name for name, in self.rows("SELECT table_name FROM mmsql_filled_table")[1]}
        self.assertLess({"process", "slice", "ftrace_event", "counter"}, filled)
        self.assertEqual({path.name for path in folder.iterdir()},
                         {f"{name}.csv" for name in filled})

    def test_some_tables_into_a_folder(self):
        self.export(self.db, "process", "thread", "--format", "jsonl", "--folder", self.dir)
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()),
                         ["process.jsonl", "thread.jsonl"])

    def test_a_failure_leaves_the_old_file(self):
        old = self.dir / "old.csv"
        old.write_text("old")
        for sql, reason in (("SELECT * FROM no_table", "no such table"),
                            ("SELECT abs(-9223372036854775808)", "integer overflow"),
                            ("SELECT (", "incomplete input|syntax error")):
            done = self.export(self.db, sql, "-o", old, code=1)
            self.assertRegex(done.stderr, f"^mmsql: .*({reason})")
            self.assertEqual(old.read_text(), "old")
        self.assertIn("No space left",
                      self.export(self.db, "counter", "-o", "/dev/full", code=1).stderr)
        self.assertEqual([path.name for path in self.dir.iterdir()], ["old.csv"])

    def test_wrong_usage(self):
        for argv, reason in (((), "is needed"), ((self.db,), "a table or SQL is needed"),
                             ((self.db, "process", "thread"), "several tables go into a --folder"),
                             ((self.db, "process", "--format", "xml"), "not csv, jsonl or"),
                             ((self.db, "process", "--max-rows", "-1"),
                              "mmsql: --max-rows -1: not a number from 1 "),
                             ((self.db, "process", "--max-rows", "0"),
                              "--max-rows 0: not a number"),
                             ((self.db, "process", "--max-memory", "1m"),
                              "--max-memory 1m: not a "),
                             ((self.db, "process", "-o", "x", "--folder", "y"), "together")):
            with self.subTest(reason):
                self.assertIn(reason, self.export(*argv, code=2).stderr)

    def test_names_ignore_case(self):
        self.assertEqual(self.export(self.db, "PROCESS").stdout,
                         self.export(self.db, "process").stdout)
        self.export(self.db, "Process", "--folder", self.dir)
        self.assertEqual([path.name for path in self.dir.iterdir()], ["Process.csv"])
        self.assertEqual(self.export(self.db, "PROCES", code=1).stderr,
                         "mmsql: PROCES: no such table or view (did you mean 'process'?)\n")
        for name in ("reclaim_episode", "slice", "ftrace_ext4_direct_IO_enter", "thread_slice",
                     "slices.with_context"):
            self.assertEqual(lib.run(lib.MMSQL, "tables", name.upper()).stdout,
                             lib.run(lib.MMSQL, "tables", name).stdout)

    def test_a_wrong_name_is_no_sql(self):
        near = "mmsql: proces: no such table or view (did you mean 'process'?)\n"
        for argv, said in (
                (("proces",), near), (("proces", "--folder", self.dir), near),
                (("nosuch",), "mmsql: nosuch: no such table or view ('mmsql tables' lists them)\n"),
                (("thread_slice",), "mmsql: thread_slice: not in the database, a module has it "
                                    "('mmsql tables thread_slice' explains it)\n")):
            with self.subTest(argv):
                self.assertEqual(self.export(self.db, *argv, code=1).stderr, said)
        self.assertIn("is empty", self.export(self.db, "", code=2).stderr)
        for sql in (" ", ";", "/* a comment */", "CREATE TEMP TABLE t(a)"):
            with self.subTest(sql):
                done = self.export(self.db, sql, "-o", self.dir / "none.csv", code=1)
                self.assertIn("the SQL asks for no rows: a SELECT is needed", done.stderr)
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_the_name_of_the_file_chooses_the_format(self):
        for name, argv, start in (
                ("a.jsonl", (), '{"a":1}'), ("a.NDJSON", (), '{"a":1}'), ("a.csv", (), "a\n1"),
                ("a.json.d/a", (), "a\n1"), ("a.txt", (), "a\n1"),
                ("a.parquet", ("--format", "csv"), "a\n1"),
                ("a.json", ("--format", "jsonl"), '{"a":1}')):
            with self.subTest(name):
                (self.dir / name).parent.mkdir(exist_ok=True)
                self.export(self.db, "SELECT 1 AS a", "-o", self.dir / name, *argv)
                self.assertEqual((self.dir / name).read_text(), start + "\n")
        for name in ("b.parquet", "b.arrow", "b.xlsx", "b.JSON", "b.csv.gz"):
            with self.subTest(name):
                done = self.export(self.db, "SELECT 1 AS a", "-o", self.dir / name, code=2)
                self.assertIn(f"{name}: export writes CSV, JSON lines or systrace, nothing else",
                              done.stderr)
                self.assertFalse((self.dir / name).exists())

    def test_a_file_has_one_answer(self):
        for sql in ("SELECT 1; SELECT 2", "SELECT 1 AS a; CREATE TEMP TABLE t(a)"):
            done = self.export(self.db, sql, code=1)
            self.assertEqual((done.stdout, done.stderr),
                             ("", "mmsql: one answer at a time: the statement that asks for rows "
                                  "must be the last\n"))
        self.assertEqual(self.export(self.db, "SELECT 1 AS a; -- that is all\n;").stdout, "a\n1\n")

    def test_a_table_of_a_stranger_has_no_file_elsewhere(self):
        """A database may come from a stranger, with any names."""
        with sqlite3.connect(self.dir / "evil.db") as handle:
            handle.execute('CREATE TABLE "../out" AS SELECT 1 AS a')
        inner = self.dir / "inner"
        done = self.export(self.dir / "evil.db", "--folder", inner, code=1)
        self.assertIn("the name of this table cannot be the name of a file", done.stderr)
        self.assertEqual(sorted(path.name for path in self.dir.rglob("*")), ["evil.db", "inner"])

    def test_names_of_a_stranger_are_plain(self):
        for name in ("-rf", ".hidden", "a\x1b[2J"):
            evil = self.dir / "evil.db"
            evil.unlink(missing_ok=True)
            with sqlite3.connect(evil) as handle:
                handle.execute(f'CREATE TABLE "{name}" AS SELECT 1 AS a')
            done = self.export(evil, "--folder", self.dir / "inner", code=1)
            self.assertIn("the name of this table cannot be the name of a file", done.stderr)
            self.assertEqual(list((self.dir / "inner").iterdir()), [], name)

    def test_links_in_the_folder_lead_nowhere(self):
        """The owner of the folder may have made links and FIFOs of the names that are written."""
        inner, mine = self.dir / "inner", self.dir / "mine"
        inner.mkdir()
        mine.write_text("mine")
        (inner / "process.csv").symlink_to("../mine")
        self.export(self.db, "process", "--folder", inner)
        self.assertEqual(mine.read_text(), "mine")
        self.assertFalse((inner / "process.csv").is_symlink())
        (inner / "process.csv").unlink()
        os.mkfifo(inner / "process.csv")
        done = self.export(self.db, "process", "--folder", inner, code=1)
        self.assertIn("process.csv: not a regular file", done.stderr)

    @lib.needs_root
    def test_the_owner_of_the_folder_changes_it_meanwhile(self):
        """A link in the place of the working file gives away no file of root's."""
        theirs, secret = self.dir / "theirs", self.dir / "secret"
        theirs.mkdir()
        secret.write_text("root's")
        secret.chmod(0o600)
        out = theirs / "out"
        out.write_text("old")
        for path in (theirs, out):
            os.chown(path, strangers.UID, strangers.UID)
        out.chmod(0o777)
        done = lib.Popen([lib.MMSQL, "export", self.db, SLOW, "-o", out], stderr=subprocess.PIPE)
        with done:
            self.addCleanup(done.kill)
            lib.wait_for(lambda: done.poll() is not None or list(theirs.glob("out.*/output")),
                         "the working file")
            done.send_signal(signal.SIGSTOP)
            working = next(theirs.glob("out.*"), None)
            if working and done.poll() is None:
                # the stranger may do this: the folder above is the stranger's
                working.rename(theirs / "gone")
                working.mkdir()
                (working / "output").symlink_to(secret)
            done.send_signal(signal.SIGCONT)
            done.wait(60)
        self.assertEqual((secret.read_text(), secret.stat().st_mode & 0o777), ("root's", 0o600))

    def test_values_of_all_kinds(self):
        sql = "SELECT NULL AS a, '' AS b, 'x,\"y\"\n' AS c, 1e300*1e10 AS d, x'00ff' AS e, 1.0 AS f"
        self.assertEqual(self.export(self.db, sql).stdout,
                         'a,b,c,d,e,f\n,"","x,""y""\n",inf,00ff,1.0\n')
        line = self.export(self.db, sql, "--format", "jsonl").stdout
        self.assertEqual(json.loads(line), {"a": None, "b": "", "c": 'x,"y"\n', "d": None,
                                            "e": "00ff", "f": 1.0})


class Damage(unittest.TestCase):
    def test_only_convert_fails_for_a_cut_trace(self):
        """As docs/convert.md says. The other verbs answer from the part that can be read."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="export-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        trace, db = folder / "cut.pftrace", folder / "cut.db"
        trace.write_bytes((GOLDEN / "heap_continuous.pftrace").read_bytes()[:-30])
        done = lib.run(lib.MMSQL, "convert", "-q", trace, "-o", db)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"the trace ends or breaks at offset \d+")
        for verb, *argv in (("query", "SELECT count(*) FROM process"), ("export", "process"),
                            ("report",), ("report", "--text"), ("verdict",), ("flamegraph",),
                            ("memory",), ("pprof", "-o", folder / "profile.pb.gz")):
            for path in (trace, db):
                with self.subTest(verb=verb, path=path.name):
                    done = lib.run(lib.MMSQL, verb, path, *argv)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    told = verb == "query" or path == trace
                    self.assertEqual("the trace ends or breaks" in done.stderr, told)
                    if argv == [] and verb == "report":
                        self.assertIn("the trace ends or breaks", done.stdout)


if __name__ == "__main__":
    unittest.main()
