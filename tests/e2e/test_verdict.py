# SPDX-License-Identifier: Apache-2.0
"""The verdict: what mmsql says of traces, and where mmtrace shows it."""
import pathlib
import shutil
import sqlite3
import tempfile
import unittest

import lib

GOLDEN = lib.ROOT / "tests" / "golden"
PRESSURE = GOLDEN / "mm_pressure.pftrace"

QUIET_CONFIG = """\
buffers { size_kb: 1024 }
duration_ms: 300
data_sources { config { name: "linux.sys_stats" sys_stats_config {
  vmstat_period_ms: 100 vmstat_counters: VMSTAT_NR_FREE_PAGES vmstat_counters: VMSTAT_PGSCAN_DIRECT } } }
"""


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mmtrace-test-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)


class Verdict(Case):
    def test_lines(self):
        done = lib.run(lib.MMSQL, "verdict", PRESSURE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        first, *others = done.stdout.splitlines()
        self.assertRegex(first, r"^Memory was short for 2\.1 s, from 1\.45 s \(2026-11-21 00:54:19 UTC\) to 3\.60 s")
        self.assertRegex(others[0], r"^sh \(pid 25629\) waited most for memory: 44 ms in 3 waits, the longest 40 ms in "
                                    r"compaction at 3\.54 s")
        self.assertLessEqual(len(others), 4)

    def test_table_and_summary_have_the_same(self):
        lines = lib.run(lib.MMSQL, "verdict", PRESSURE).stdout.splitlines()
        done = lib.run(lib.MMSQL, "convert", PRESSURE, "-o", self.dir / "t.db")
        self.assertEqual([line[2:] for line in done.stderr.splitlines()[1:]], lines)
        with sqlite3.connect(self.dir / "t.db") as db:
            rows = db.execute("SELECT text, query, trace_id FROM verdict ORDER BY id").fetchall()
            self.assertEqual([row[0] for row in rows], lines)
            for _, query, trace in rows:
                self.assertTrue(db.execute(query).fetchall())
                self.assertEqual(trace, 0)
        self.assertEqual(lib.run(lib.MMSQL, "verdict", self.dir / "t.db").stdout.splitlines(), lines)

    def test_several_traces_are_named(self):
        done = lib.run(lib.MMSQL, "convert", "-q", PRESSURE, GOLDEN / "sched_deflate.pftrace", "-o", self.dir / "t.db")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        both = lib.run(lib.MMSQL, "verdict", self.dir / "t.db").stdout
        for name in ("mm_pressure", "sched_deflate"):
            alone = lib.run(lib.MMSQL, "verdict", GOLDEN / f"{name}.pftrace").stdout.splitlines()
            lines = "".join(f"  {line}\n" for line in alone)
            self.assertIn(f"{GOLDEN / name}.pftrace:\n{lines}", both)

    def test_wrong_usage_and_no_trace(self):
        self.assertEqual(lib.run(lib.MMSQL, "verdict").returncode, 2)
        (self.dir / "text").write_text("no trace\n" * 100)
        done = lib.run(lib.MMSQL, "verdict", self.dir / "text", PRESSURE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Memory was short", done.stdout)


class Record(Case):
    def record(self, *argv, mmtrace=lib.MMTRACE):
        (self.dir / "config").write_text(QUIET_CONFIG)
        return lib.run(mmtrace, "record", "-c", self.dir / "config", "-o", self.dir / "trace", *argv)

    def test_end(self):
        done = self.record()
        self.assertEqual(done.returncode, 0, done.stderr)
        verdict = lib.run(lib.MMSQL, "verdict", self.dir / "trace").stdout
        self.assertEqual(done.stderr.split("\n", 1)[1], "".join(f"  {line}\n" for line in verdict.splitlines()))

    def test_quiet(self):
        self.assertEqual(self.record("--quiet").stderr, "")

    def test_without_mmsql(self):
        """Nothing is missing but the lines."""
        alone = shutil.copy(lib.MMTRACE, self.dir / "mmtrace")
        done = self.record(mmtrace=alone)
        self.assertEqual(done.returncode, 0)
        if not any(pathlib.Path(folder, "mmsql").exists() for folder in ("/usr/bin", "/usr/local/bin")):
            self.assertRegex(done.stderr, r"^mmtrace: \S+: .* lost\n$")

    @lib.needs_root
    def test_root_runs_no_program_of_a_stranger(self):
        mmtrace, program = (shutil.copy(made, self.dir) for made in (lib.MMTRACE, lib.MMSQL))

        def has_verdict():
            return "\n  Quiet for " in self.record(mmtrace=mmtrace).stderr
        self.assertTrue(has_verdict())
        shutil.chown(program, 65534)
        self.assertFalse(has_verdict())
        shutil.chown(program, 0)
        self.assertTrue(has_verdict())
        self.dir.chmod(0o777)
        self.assertFalse(has_verdict())


if __name__ == "__main__":
    unittest.main()
