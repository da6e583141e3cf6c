# SPDX-License-Identifier: Apache-2.0
"""mmsql on files of strangers that attack the program, the machine or the user by more than their bytes."""
import contextlib
import os
import pathlib
import shutil
import sqlite3
import tempfile
import unittest

import lib

TRACE = lib.ROOT / "tests" / "golden" / "mm_pressure.pftrace"


class Untrusted(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="untrusted-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.db = self.dir / "out.db"

    def convert(self, *argv, code=0, **options):
        done = lib.run(lib.MMSQL, "convert", "-q", *argv, "-o", self.db, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def ask(self, sql, code=0):
        done = lib.run(lib.MMSQL, "query", "-q", "--csv", self.db, sql)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr


class Databases(Untrusted):
    """A schema is a program that SQLite runs."""

    def setUp(self):
        super().setUp()
        self.convert(TRACE)

    def change(self, *statements):
        with contextlib.closing(sqlite3.connect(self.db)) as handle:
            for statement in ("PRAGMA legacy_alter_table=ON", *statements):
                handle.execute(statement)
            handle.commit()

    def test_settings(self):
        self.assertEqual(self.ask("PRAGMA trusted_schema").split()[1], "0")
        self.assertEqual(self.ask("PRAGMA cell_size_check").split()[1], "1")
        self.assertEqual(self.ask("PRAGMA mmap_size").split()[1:], ["0"])

    def test_the_schema_is_not_writable(self):
        self.assertIn("may not be modified", self.ask(
            "CREATE TEMP TABLE t(a); PRAGMA writable_schema=ON; UPDATE temp.sqlite_master SET sql = 'x'", code=1))

    def test_no_extension_is_loaded(self):
        extension = lib.BUILD / "converter" / "mmsql_functions.so"
        self.assertRegex(self.ask(f"SELECT load_extension('{extension}')", code=1), "not authorized|no such function")

    def test_a_view_that_calls_a_function_that_reads_the_view(self):
        """Each call is a statement of its own, without an end but that of the stack."""
        self.change("ALTER TABLE trace_bounds RENAME TO t",
                    "CREATE VIEW trace_bounds AS SELECT trace_start() AS start_ts, 1 AS end_ts")
        for sql in ("SELECT start_ts FROM trace_bounds", "SELECT trace_start()"):
            self.assertIn("unsafe use of trace_start()", self.ask(sql, code=1))

    def test_triggers_do_not_fire(self):
        """An old database that an append copies has triggers on what the append writes."""
        self.change("CREATE TABLE fired(what)",
                    *(f"CREATE TRIGGER on_{t} AFTER INSERT ON {t} BEGIN INSERT INTO fired VALUES('{t}'); END"
                      for t in ("input_file", "trace", "verdict")))
        self.convert("--append", lib.ROOT / "tests" / "golden" / "counters_tracks.pftrace")
        with contextlib.closing(sqlite3.connect(self.db)) as handle:
            self.assertEqual(handle.execute("SELECT count(*) FROM trace").fetchall(), [(2,)])
            self.assertEqual(handle.execute("SELECT * FROM fired").fetchall(), [])


if __name__ == "__main__":
    unittest.main()
