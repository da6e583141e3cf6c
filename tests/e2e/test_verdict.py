# SPDX-License-Identifier: Apache-2.0
"""The verdict: what mmsql says of traces, and where mmtrace shows it."""
import os
import pathlib
import shutil
import signal
import sqlite3
import tempfile
import time
import unittest
from unittest import mock

import lib
import test_daemon

GOLDEN = lib.ROOT / "tests" / "golden"
PRESSURE = GOLDEN / "mm_pressure.pftrace"

QUIET_CONFIG = """\
buffers { size_kb: 1024 }
duration_ms: 300
data_sources { config { name: "linux.sys_stats" sys_stats_config {
  vmstat_period_ms: 100 vmstat_counters: VMSTAT_NR_FREE_PAGES vmstat_counters: VMSTAT_PGSCAN_DIRECT } } }
"""


TRIGGER = 'trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 3600000 ' \
          'triggers { name: "now" stop_delay_ms: 300 } }\n'


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mmtrace-test-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def with_slow_mmsql(self):
        """An mmtrace, and beside it an mmsql that says something and then stays for a minute."""
        mmtrace = pathlib.Path(shutil.copy(lib.MMTRACE, self.dir))
        shutil.copy(pathlib.Path("/bin/sh").resolve(), self.dir / "mmsql")
        (self.dir / "verdict").write_text(f"echo $$ > {self.dir}/pid; echo so far; exec sleep 60\n")
        return mmtrace

    def slow_one_is_gone(self):
        return not pathlib.Path("/proc", (self.dir / "pid").read_text().strip()).exists()


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


    def test_prompt_does_not_wait_for_a_slow_one(self):
        mmtrace = self.with_slow_mmsql()
        (self.dir / "config").write_text(QUIET_CONFIG)
        before = time.monotonic()
        done = lib.run(mmtrace, "record", "-c", "config", "-o", "trace", cwd=self.dir)
        self.assertLess(time.monotonic() - before, 20)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"lost\n  no verdict yet: .* \(mmsql verdict trace\)\n$")
        self.assertTrue(self.slow_one_is_gone())


@lib.needs_root
class Daemon(Case):
    def setUp(self):
        super().setUp()
        sockets = {f"PERFETTO_{kind}_SOCK_NAME": str(self.dir / kind) for kind in ("CONSUMER", "PRODUCER")}
        self.env = {**os.environ, **sockets}
        (self.dir / "armed").mkdir()
        (self.dir / "armed" / "quiet.cfg").write_text(QUIET_CONFIG.replace("duration_ms: 300", "") + TRIGGER)

    def daemon(self):
        daemon = test_daemon.Daemon(self.dir, env=self.env, ipc=True)
        self.addCleanup(daemon.end, signal.SIGKILL)
        daemon.wait(lambda: "armed/quiet.cfg: armed" in daemon.said())
        lib.run(lib.MMTRACE, "trigger", "now", env=self.env)
        daemon.wait(lambda: "quiet.cfg: wrote" in daemon.said())
        return daemon

    def test_log_has_the_verdict(self):
        daemon = self.daemon()
        [trace] = daemon.files()
        lines = lib.run(lib.MMSQL, "verdict", trace).stdout.splitlines()
        self.assertTrue(lines)
        daemon.wait(lambda: all(f"mmtrace: {trace.name}: {line}\n" in daemon.said() for line in lines))

    def test_daemon_without_mmsql(self):
        with mock.patch("lib.MMTRACE", shutil.copy(lib.MMTRACE, self.dir)):
            daemon = self.daemon()
            self.assertEqual(daemon.end(), 0)
        self.assertNotIn("verdict", daemon.said())

    def test_end_does_not_wait_for_a_slow_one(self):
        with mock.patch("lib.MMTRACE", self.with_slow_mmsql()):
            here = os.getcwd()
            os.chdir(self.dir)
            self.addCleanup(os.chdir, here)
            daemon = self.daemon()
        daemon.wait((self.dir / "pid").exists)

        def triggered_again():
            lib.run(lib.MMTRACE, "trigger", "now", env=self.env)
            return daemon.said().count("wrote") > 1
        daemon.wait(triggered_again)  # it works on meanwhile
        before = time.monotonic()
        self.assertEqual(daemon.end(), 0)
        self.assertLess(time.monotonic() - before, 20)
        self.assertTrue(self.slow_one_is_gone())


if __name__ == "__main__":
    unittest.main()
