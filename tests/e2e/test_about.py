# SPDX-License-Identifier: Apache-2.0
"""The database describes itself: mmsql_schema and the views beside it."""
import pathlib
import re
import shutil
import sqlite3
import tempfile
import unittest

import lib

GOLDEN = lib.ROOT / "tests" / "golden"
TRACES = [GOLDEN / f"{name}.pftrace" for name in ("mm_pressure", "heap_continuous",
                                                  "counters_tracks", "sched_deflate")]


class About(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="about-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        cls.db = cls.dir / "one.db"
        cls.convert(cls.db, TRACES[0])
        cls.handle = sqlite3.connect(cls.db)
        cls.addClassCleanup(cls.handle.close)

    @staticmethod
    def convert(output, *argv):
        done = lib.run(lib.MMSQL, "convert", "-q", *argv, "-o", output)
        if done.returncode:
            raise AssertionError(done.stderr)

    def rows(self, sql, *arguments, handle=None):
        return (handle or self.handle).execute(sql, arguments).fetchall()

    def test_each_public_column_is_described(self):
        """SQLite has equal names and types."""
        described = {}
        for table, column, kind in self.rows(
                "SELECT table_name, column_name, type FROM mmsql_schema WHERE column_name NOTNULL"):
            described.setdefault(table, []).append((column, kind))
        there = [name for name, in self.rows(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT GLOB '_*' "
            "AND name NOT GLOB 'sqlite_*' AND name NOT GLOB 'ftrace_*' OR "
            "name IN ('ftrace_event', '_trace_import_logs')")]
        self.assertEqual(set(described), set(there))
        for name in there:
            found = [(column, kind) for _, column, kind, *_ in
                     self.rows(f'PRAGMA table_info("{name}")')]
            self.assertEqual([column for column, _ in described[name]],
                             [column for column, _ in found], name)
            for (column, says), (_, kind) in zip(described[name], found):
                # Newer versions of SQLite name the type of a cast: INT or NUM.
                self.assertIn(kind, ("", "BLOB", "NUM", says, says[:3]), f"{name}.{column}")

    def test_kinds_are_those_of_sqlite(self):
        wrong = self.rows("SELECT table_name FROM mmsql_schema s JOIN sqlite_master m "
                          "ON m.name = s.table_name AND m.type IN ('table', 'view') "
                          "WHERE m.type != s.kind")
        self.assertEqual(wrong, [])

    def test_texts_are_those_of_the_tables_page(self):
        page = " ".join((lib.ROOT / "docs" / "tables.md").read_text().split())
        rows = self.rows("SELECT table_name, column_name, type, doc FROM mmsql_schema")
        self.assertGreater(len(rows), 1200)
        for table, column, kind, doc in rows:
            self.assertIn(f"`{column}` {kind}: {doc}" if column else f"### {table} {doc}", page)

    def test_references_lead_to_columns(self):
        wrong = self.rows(
            "SELECT DISTINCT refers_table, refers_column FROM mmsql_schema s WHERE refers_table "
            "NOTNULL AND NOT EXISTS (SELECT 1 FROM mmsql_schema t WHERE t.table_name = "
            "s.refers_table AND t.column_name = s.refers_column)")
        self.assertEqual(wrong, [])
        self.assertIn(("process", "upid"), self.rows(
            "SELECT refers_table, refers_column FROM mmsql_schema WHERE table_name = 'thread' AND "
            "column_name = 'upid'"))

    def test_units(self):
        units = dict(self.rows("SELECT column_name, unit FROM mmsql_schema WHERE table_name IN "
                               "('slice', 'page_residency_file')"))
        self.assertEqual(units["ts"], "ns")
        self.assertIsNone(units["name"])

    def test_no_row_refers_to_nothing(self):
        for trace in TRACES:
            path = self.dir / "keys.db"
            self.convert(path, trace)
            with sqlite3.connect(path) as handle:
                self.assertEqual(self.rows("PRAGMA foreign_key_check", handle=handle), [])
                keys = self.rows("PRAGMA foreign_key_list(counter)", handle=handle)
                self.assertIn("_track", [key[2] for key in keys])

    def test_values_have_the_types_that_columns_declare(self):
        """Programs with types of their own, such as DuckDB, read a column as its declared type."""
        allowed = {"INTEGER": "'integer'", "REAL": "'real', 'integer'", "TEXT": "'text'"}
        n = 0
        for trace in TRACES:
            path = self.dir / "types.db"
            self.convert(path, trace)
            with sqlite3.connect(path) as handle:
                for table, in self.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND "
                                        "name NOT GLOB 'sqlite_*'", handle=handle):
                    typed = [(column, kind) for _, column, kind, *_ in
                             self.rows(f'PRAGMA table_info("{table}")', handle=handle)
                             if kind in allowed]
                    checks = [f"sum(typeof(\"{column}\") NOT IN ({allowed[kind]}, 'null'))"
                              for column, kind in typed] or ["0"]
                    wrong = self.rows(f'SELECT {", ".join(checks)} FROM "{table}"', handle=handle)
                    found = [column for (column, _), number in zip(typed, wrong[0]) if number]
                    self.assertEqual(found, [], f"{trace.name}: {table}")
                    n += len(typed)
        self.assertGreater(n, 1000)

    def test_each_column_has_a_type(self):
        self.assertEqual(self.rows(
            "SELECT table_name, column_name, type FROM mmsql_schema WHERE column_name NOTNULL AND "
            "type NOT IN ('INTEGER', 'REAL', 'TEXT', 'BLOB')"), [])

    def test_values_of_views_have_the_types_of_the_schema(self):
        allowed = {"INTEGER": "'integer'", "REAL": "'real', 'integer'", "TEXT": "'text'"}
        columns = {}
        for view, column, kind in self.rows("SELECT table_name, column_name, type FROM "
                                            "mmsql_schema WHERE kind = 'view' AND type NOTNULL"):
            columns.setdefault(view, []).append((column, kind))
        with_values = set()
        imports = sorted((GOLDEN / "imports").glob("*.textproto"))
        for trace in [*TRACES, *imports]:
            path = self.dir / "view-types.db"
            if trace in imports:
                encoded = self.dir / "import.pftrace"
                encoded.write_bytes(lib.encode(trace.read_text()))
                # Some of these traces are damaged on purpose.
                lib.run(lib.MMSQL, "convert", "-q", encoded, "-o", path)
            else:
                self.convert(path, trace)
            with sqlite3.connect(path) as handle:
                for view, typed in columns.items():
                    checks = ", ".join(
                        f"sum(typeof(\"{column}\") NOT IN ({allowed[kind]}, 'null')), "
                        f"count(\"{column}\")" for column, kind in typed)
                    counts, = self.rows(f'SELECT {checks} FROM "{view}"', handle=handle)
                    for (column, _), wrong, n in zip(typed, counts[::2], counts[1::2]):
                        self.assertFalse(wrong, f"{trace.name}: {view}.{column}")
                        if n:
                            with_values.add((view, column))
        self.assertGreater(len(with_values), 600)

    def test_versions(self):
        program, schema = self.rows("SELECT program, schema FROM mmsql_version")[0]
        self.assertEqual(lib.run(lib.MMSQL, "--version").stdout, f"mmsql {program}\n")
        self.assertEqual(self.rows("PRAGMA user_version"), [(schema,)])

    def test_tables_with_rows(self):
        filled = dict(self.rows("SELECT table_name, n_rows FROM mmsql_filled_table"))
        for name, in self.rows("SELECT DISTINCT table_name FROM mmsql_schema WHERE kind = 'table'"):
            n = self.rows(f'SELECT count(*) FROM "{name}"')[0][0]
            self.assertEqual(filled.get(name, 0), n, name)
        self.assertGreater(filled["ftrace_event"], 1000)
        self.assertGreater(filled["process"], 3)

    def test_wall_clock(self):
        trace, = self.rows("SELECT start_utc, end_utc, uuid, dur FROM mmsql_trace")
        self.assertEqual(trace, ("2026-11-21T00:54:18.157Z", "2026-11-21T00:54:26.144Z",
                                 "d3ea25b3-5349-9f44-c272-26e80b3efb50", 7986937155))
        for view in ("pressure_episode", "reclaim_episode"):
            for ts, utc in self.rows(f"SELECT ts, utc FROM {view}"):
                self.assertRegex(utc, r"^2026-11-21T00:54:\d\d\.\d{3}Z$")
                self.assertLessEqual(trace[0], utc)
                self.assertGreater(ts, 0)
        verdict = lib.run(lib.MMSQL, "verdict", TRACES[0]).stdout
        said = re.search(r"\((\d\S+) (\S+) UTC\)", " ".join(verdict.split()))
        self.assertEqual(f"{said[1]}T{said[2]}", self.rows(
            "SELECT min(utc) FROM pressure_episode")[0][0][:19])

    def test_several_traces_have_one_description(self):
        both, added = self.dir / "both.db", self.dir / "added.db"
        self.convert(both, TRACES[0], TRACES[1])
        self.convert(added, TRACES[0])
        self.convert(added, "-a", TRACES[1])
        self.convert(self.dir / "few.db", "--tables", "process", TRACES[0])
        want = self.rows("SELECT * FROM mmsql_schema ORDER BY id")
        for path in (both, added, self.dir / "few.db"):
            with sqlite3.connect(path) as handle:
                self.assertEqual(self.rows("SELECT * FROM mmsql_schema ORDER BY id",
                                           handle=handle), want)
                n = self.rows("SELECT count(*) FROM mmsql_trace", handle=handle)
                self.assertEqual(n, [(1 if path.name == "few.db" else 2,)])

    @lib.needs_program("sqlite3")
    def test_sqlite3_shows_tables_and_keys(self):
        done = lib.run("sqlite3", "-readonly", self.db, ".schema counter")
        self.assertIn('"track_id" INTEGER REFERENCES "_track"', done.stdout)
        self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main()
