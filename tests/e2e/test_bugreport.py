# SPDX-License-Identifier: Apache-2.0
"""mmtrace bugreport: the report has the history even if no session records, and mmsql loads the
report."""
import contextlib
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest
import zipfile

import lib
import strangers
from test_daemon import running

FOLDER = "FS/data/misc/perfetto-traces/bugreport/"
MAIN = FOLDER + "systrace.pftrace"
PRESSURE = lib.ROOT / "tests" / "golden" / "mm_pressure.pftrace"
SCHED = lib.ROOT / "tests" / "golden" / "sched_deflate.pftrace"
MINUTE = 60
SANITIZED = b"__asan_init" in lib.MMSQL.read_bytes()


def config(trigger, mode="START_TRACING", stop_delay_ms=300, more=""):
    return f"""
buffers {{ size_kb: 64 }}
data_sources {{ config {{ name: "linux.sys_stats" sys_stats_config {{ vmstat_period_ms: 100 }} }} }}
trigger_config {{ trigger_mode: {mode} trigger_timeout_ms: 3600000
    triggers {{ name: "{trigger}" stop_delay_ms: {stop_delay_ms} }} }}
{more}
"""


class Case(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(tmp.cleanup)
        self.root = pathlib.Path(tmp.name)
        self.sockets = {f"PERFETTO_{kind}_SOCK_NAME": str(self.root / kind)
                        for kind in ("CONSUMER", "PRODUCER")}
        self.zip = self.root / "report.zip"

    def mmtrace(self, *argv, code=0, **options):
        done = lib.run(lib.MMTRACE, *argv, env={**os.environ, **self.sockets}, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def report(self, *argv, **options):
        said = self.mmtrace("bugreport", "-o", self.zip, *argv, **options)
        with zipfile.ZipFile(self.zip) as report:
            self.assertIsNone(report.testzip())
            self.entries = {name: report.read(name) for name in report.namelist()}
        self.index = self.entries["index.txt"].decode()
        return said

    def traces(self):
        return sorted(name.removeprefix(FOLDER) for name in self.entries if name.startswith(FOLDER))

    def query(self, sql):
        db = self.root / "report.db"
        done = lib.run(lib.MMSQL, "convert", "-q", self.zip, "-o", db)
        self.assertEqual(done.returncode, 0, done.stderr)
        with contextlib.closing(sqlite3.connect(db)) as handle:
            return handle.execute(sql).fetchall()


class WithoutDaemon(Case):
    def setUp(self):
        super().setUp()
        self.folder = self.root / "traces"
        self.folder.mkdir()

    def put(self, name, source, age_s):
        path = self.folder / name
        path.write_bytes(source.read_bytes())
        os.utime(path, (time.time() - age_s,) * 2)
        return path

    def test_finished_traces(self):
        self.put("mm-20261121T031500Z.pftrace", PRESSURE, 2 * MINUTE)
        self.put("sched.pftrace", SCHED, MINUTE)
        self.put("old.pftrace", SCHED, 25 * 60 * MINUTE)
        said = self.report("--traces", self.folder)
        self.assertRegex(said, r"report.zip: \d+ bytes, 2 traces\n")
        self.assertEqual(self.traces(), ["mm-20261121T031500Z.pftrace", "systrace.pftrace"])
        self.assertEqual(self.entries[MAIN], SCHED.read_bytes(), "the newest")
        self.assertRegex(self.index,
                         fr"(?m)^ *12198  {MAIN}  finished 1\.0 min before the "
                         r"report: .*/sched.pftrace$")
        self.assertIn("\n1 are older and left out.\n", self.index)
        self.assertIn("No snapshot: no tracing service answers", self.index)
        summary = self.entries["summary.txt"].decode()
        if not SANITIZED:  # a sanitizer needs more address space than the verdict's child may have
            self.assertIn("Memory was short for",
                          summary.split("mm-20261121T031500Z.pftrace", 1)[1])
            self.assertIn("\n  Memory was compacted", said, "the verdict of the main trace")
        self.assertEqual(
            self.query(
                "SELECT count(*), (SELECT count(*) FROM proc_vmstat) > 100, (SELECT count(*) > 0 "
                "FROM counter) FROM trace"), [(2, 1, 1)])

    def test_bounds(self):
        for i in range(4):
            self.put(f"{i}.pftrace", SCHED, MINUTE * i)
        self.report("--traces", self.folder, "--history-files", "2")
        self.assertEqual(self.traces(), ["1.pftrace", "systrace.pftrace"])
        self.report("--traces", self.folder, "--history-bytes", "30000")
        self.assertEqual(self.traces(), ["1.pftrace", "systrace.pftrace"])
        self.assertIn("\n2 are too many or too large together and left out.\n", self.index)
        self.report("--traces", self.folder, "--history-age", "150s")
        self.assertEqual(self.traces(), ["1.pftrace", "2.pftrace", "systrace.pftrace"])
        for value in ("--history-files=41", "--history-age=x", "--history-bytes=-1"):
            self.mmtrace("bugreport", "-o", self.zip, value, code=2)

    def test_a_missing_trace_is_reported(self):
        """The message says why, and what to do; the report is still written, and mmsql loads the
        report."""
        said = self.report("--traces", self.folder)
        self.assertRegex(said,
                         r"mmtrace: no trace is in the report: no tracing service answers at \S+; "
                         r"\S+/traces has no finished trace \(start one with mmtrace daemon\)\n$")
        self.assertIn("no trace is in the report", self.entries["summary.txt"].decode())
        self.assertEqual(self.report("-q", "--traces", self.folder), "")
        self.put("old.pftrace", SCHED, 3 * 24 * 60 * MINUTE)
        said = self.report("--traces", self.folder)
        self.assertIn("the newest finished trace is 3.0 days old (--history-age takes older ones)",
                      said)
        rows = self.query(
            "SELECT (SELECT count(*) FROM trace), p.ts, p.realtime_ns, host, (SELECT count(*) "
            "FROM proc_meminfo), (SELECT count(*) FROM proc_pressure) FROM proc_snapshot p")
        [(n_traces, ts, realtime_ns, host, n_meminfo, n_pressure)] = rows
        self.assertEqual((n_traces, host), (0, os.uname().nodename))
        self.assertLess(abs(ts / 1e9 - time.clock_gettime(time.CLOCK_BOOTTIME)), 60)
        self.assertLess(abs(realtime_ns / 1e9 - time.time()), 60)
        self.assertGreater(n_meminfo, 20)
        self.assertEqual(n_pressure > 0, os.path.exists("/proc/pressure/memory"))

    def test_proc_is_loaded_as_it_is(self):
        """Every line of the files that the report has is a row."""
        self.report("--traces", self.folder)
        lines = {name: len(self.entries[f"FS/proc/{name}"].splitlines())
                 for name in ("vmstat", "meminfo", "buddyinfo")}
        [row] = self.query(
            "SELECT (SELECT count(*) FROM proc_vmstat), (SELECT count(*) FROM proc_meminfo), "
            "(SELECT count(DISTINCT node || zone) FROM proc_buddyinfo), "
            "(SELECT sum(value) FROM proc_zoneinfo WHERE name = 'free' AND cpu IS NULL), "
            "(SELECT count(*) FROM proc_slabinfo), (SELECT count(*) FROM proc_swap)")
        self.assertEqual(row[:3], (lines["vmstat"], lines["meminfo"], lines["buddyinfo"]))
        free = sum(map(int,
                       re.findall(r"pages free +(\d+)", self.entries["FS/proc/zoneinfo"].decode())))
        self.assertEqual(row[3], free)
        slabs = len(self.entries.get("FS/proc/slabinfo", b"a\nb\n").splitlines()) - 2
        self.assertEqual(row[4:], (slabs, len(self.entries["FS/proc/swaps"].splitlines()) - 1))

    @lib.needs_root
    def test_folder_that_cannot_be_read(self):
        self.folder.chmod(0o700)
        self.put("a.pftrace", SCHED, MINUTE)
        self.root.chmod(0o755)
        argv = [lib.MMTRACE, "bugreport", "-o", "-", "--traces", self.folder]
        if lib.run("setpriv", "--reuid=65534", "--clear-groups", lib.MMTRACE,
                   "--version").returncode != 0:
            self.skipTest(
                "another user cannot run the build: it is in a folder that only its owner may "
                "enter")
        done = lib.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *argv,
                       text=False,
                       env={**os.environ, **self.sockets})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"/traces: Permission denied (run it as root)\n", done.stderr)

    @lib.needs_root
    def test_links_are_not_followed(self):
        """A user who can write into the folder must not choose what root reads."""
        secret = self.root / "secret"
        secret.write_bytes(SCHED.read_bytes())
        (self.folder / "link.pftrace").symlink_to(secret)
        os.link(secret, self.folder / "second.pftrace")
        self.put("strangers.pftrace", SCHED, MINUTE)
        os.chown(self.folder / "strangers.pftrace", 12345, 12345)
        self.report("--traces", self.folder)
        self.assertEqual(self.traces(), [])
        self.assertIn("/link.pftrace: not read: not a regular file\n", self.index)
        for name in ("second", "strangers"):
            self.assertIn(f"/{name}.pftrace: not read: another owner, or a second link\n",
                          self.index)

    @lib.needs_root
    def test_a_link_in_the_path_is_not_followed(self):
        """Another user's link must not choose which file root replaces."""
        (self.root / "roots").mkdir()
        mine = self.root / "roots" / "report.zip"
        mine.write_text("mine")
        (self.root / "link").symlink_to(mine.parent)
        os.chown(self.root / "link", 12345, 12345, follow_symlinks=False)
        done = lib.run(lib.MMTRACE, "bugreport", "-o", self.root / "link" / "report.zip",
                       env={**os.environ, **self.sockets})
        self.assertIn(f"the folder {self.root}/link is a link of user 12345", done.stderr)
        self.assertEqual((done.returncode, mine.read_text()), (1, "mine"))


@lib.needs_root
class WithDaemon(Case):
    def daemon(self, *options, **configs):
        (self.root / "armed").mkdir()
        for name, text in configs.items():
            (self.root / "armed" / f"{name}.cfg").write_text(text)
        context = running(self.root, "--kmem-events", "none", *options, env=self.sockets, ipc=True)
        daemon = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        for name in configs:
            daemon.wait(lambda: f"armed/{name}.cfg: armed" in daemon.said())
        return daemon

    def fire(self, daemon, name, files):
        """Fires the trigger, waits for the trace, and makes the trace a minute old."""
        self.mmtrace("trigger", name)
        [path] = daemon.wait(lambda: [path for path in files() if f"wrote {path}" in daemon.said()])
        os.utime(path, (time.time() - MINUTE,) * 2)
        return path

    def test_a_minute_after_the_session(self):
        """The session has ended and is armed again. The report has its trace at the place where
        readers look."""
        daemon = self.daemon(
            mm=config("go", more='bugreport_score: 100 unique_session_name: "mm_session"'))
        path = self.fire(daemon, "go", daemon.files)
        daemon.wait(lambda: "mm_session" in lib.run(lib.MMTRACE, "status",
                                                    env={**os.environ, **self.sockets}).stdout)
        said = self.report()
        self.assertNotIn("no trace", said)
        self.assertEqual(self.traces(), ["systrace.pftrace"])
        self.assertEqual(self.entries[MAIN], path.read_bytes())
        self.assertIn(f"{MAIN}  finished 1.0 min before the report: {path}\n", self.index)
        self.assertRegex(self.index, r"session \d+  mm_session  CONFIGURED  bugreport_score 100\n")
        [row] = self.query(
            "SELECT count(*), (SELECT count(*) > 0 FROM counter c JOIN counter_track t ON t.id = "
            "c.track_id WHERE t.name = 'nr_free_pages'), (p.ts - t.end_ts) / 1e9 BETWEEN 0 AND 60 "
            "FROM proc_snapshot p JOIN trace t ON t.path LIKE p.path || '!%'")
        self.assertEqual(row, (1, 1, 1))
        [n] = lib.run(lib.MMSQL, "query", "--csv", self.zip,
                      "SELECT count(*) AS n FROM trace").stdout.splitlines()[1:]
        self.assertEqual(n, "1")

    def test_while_the_trace_is_brought_to_the_disk(self):
        """If the only session has ended and its trace is not finished yet, the report waits for the
        trace."""
        daemon = self.daemon(mm=config("go"))
        path = self.fire(daemon, "go", daemon.files)
        part = path.with_name(path.name + ".part")
        path.rename(part)
        finished = threading.Timer(1, part.rename, (path,))
        finished.start()
        self.addCleanup(finished.join)
        self.report()
        self.assertEqual(self.traces(), ["systrace.pftrace"])

    def test_the_score_chooses(self):
        """Traces elsewhere are found, and the config with the highest score has the first place."""
        elsewhere = self.root / "elsewhere"
        daemon = self.daemon(
            best=config("one", more=f'bugreport_score: 9 output_path: "{elsewhere}/best.pftrace"'),
            other=config("two", more="bugreport_score: 3"))
        best = self.fire(daemon, "one", lambda: sorted(elsewhere.glob("best-*.pftrace")))
        os.utime(best, (time.time() - 2 * MINUTE,) * 2)
        other = self.fire(daemon, "two", daemon.files)
        (elsewhere / "not-ours.pftrace").write_bytes(SCHED.read_bytes())
        self.report()
        self.assertEqual(self.traces(), sorted([other.name, "systrace.pftrace"]))
        self.assertEqual(self.entries[MAIN], best.read_bytes())

    def test_sessions_of_others_come_last(self):
        """A member of the consumer group records with the highest score. Root's session comes
        first, and then root's finished trace."""
        daemon = self.daemon("--consumer-group", str(strangers.UID),
                             go=config("go", stop_delay_ms=2000, more="bugreport_score: 1"))
        self.root.chmod(0o711)
        folder = self.root / "member"
        folder.mkdir()
        folder.chmod(0o777)
        (folder / "own.cfg").write_text(config("never", "STOP_TRACING", more='''
            bugreport_score: 2000000000 unique_session_name: "own"
            bugreport_filename: "own.pftrace"'''))
        member = lib.Popen([lib.MMTRACE, "record", "-c", folder / "own.cfg", "-o", folder / "out"],
                           env={**os.environ, **self.sockets}, user=strangers.UID,
                           group=strangers.UID, extra_groups=[], stderr=subprocess.DEVNULL)
        self.addCleanup(member.wait)
        self.addCleanup(member.kill)
        status = ("status", "--json")
        lib.wait_for(lambda: '"own"' in lib.run(lib.MMTRACE, *status, env={
            **os.environ, **self.sockets}).stdout, daemon.said)
        self.mmtrace("trigger", "go")
        self.report()
        self.assertEqual(self.traces(), ["own.pftrace", "systrace.pftrace"])
        self.assertRegex(self.index, fr"{MAIN}  session \d+  -, as it was recording\n")
        [path] = daemon.wait(lambda: [path for path in daemon.files()
                                      if f"wrote {path}" in daemon.said()])
        self.zip.unlink()
        self.report()
        self.assertEqual(self.traces(), ["own.pftrace", "systrace.pftrace"])
        self.assertEqual(self.entries[MAIN], path.read_bytes())

    def test_beside_a_snapshot(self):
        """A session that records comes first. Its earlier snapshots are there, and a message says
        that they overlap."""
        daemon = self.daemon(ring=config("snap", "CLONE_SNAPSHOT", more="bugreport_score: 5"))
        self.mmtrace("trigger", "snap")
        daemon.wait(lambda: daemon.files() and f"wrote {daemon.files()[0]}" in daemon.said())
        [earlier] = daemon.files()
        self.report()
        self.assertEqual(self.traces(), sorted([earlier.name, "systrace.pftrace"]))
        self.assertRegex(self.index, fr"{MAIN}  session \d+  -, as it was recording\n")
        done = lib.run(lib.MMSQL, "convert", "-q", self.zip, "-o", self.root / "report.db")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("a snapshot of the same session as", done.stderr)
        [(n, n_sessions)] = self.query(
            "SELECT count(*), count(DISTINCT substr(uuid, 20)) FROM trace")
        self.assertEqual((n, n_sessions), (2, 1))

    def test_a_daemon_that_was_killed(self):
        """The daemon does not answer. The report has its recording up to the last whole packet."""
        daemon = self.daemon(mm=config("go", stop_delay_ms=600000, more="bugreport_score: 100"))
        self.mmtrace("trigger", "go")
        [part] = daemon.wait(
            lambda: [path for path in daemon.traces.glob("*.part") if path.stat().st_size > 4000])
        daemon.end(signal.SIGKILL)
        said = self.report("--traces", daemon.traces)
        self.assertRegex(said, r"report.zip: \d+ bytes, 1 trace\n")
        self.assertIn(f"{MAIN}  left unfinished", self.index)
        self.assertEqual(self.entries[MAIN], part.read_bytes())
        done = lib.run(lib.MMSQL, "query", "--csv", self.zip, "SELECT count(*) > 0 FROM counter")
        self.assertEqual(done.stdout.splitlines()[1:], ["1"], done.stderr)

    def test_a_service_that_is_not_believed(self):
        """Root does not look in a folder that another user's service names."""
        folder = self.root / "bait"
        folder.mkdir()
        (folder / "bait.pftrace").write_bytes(SCHED.read_bytes())
        state = self.root / "stranger"
        state.mkdir()
        os.chown(state, 65534, 65534)
        self.root.chmod(0o755)
        sockets = {f"PERFETTO_{kind}_SOCK_NAME": str(state / kind)
                   for kind in ("CONSUMER", "PRODUCER")}
        self.sockets = sockets
        argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", lib.MMTRACE,
                "daemon", "--armed", "none",
                "--state-dir", state / "s", "--run-dir", state / "r", "--output-dir", folder,
                "--kmem-events", "none"]
        with open(self.root / "log", "wb") as log, \
                subprocess.Popen([str(arg) for arg in argv], stderr=log,
                                 env={**os.environ, **sockets}) as daemon:
            try:
                end = time.monotonic() + 30
                while not (state / "CONSUMER").exists():
                    if daemon.poll() is not None or time.monotonic() > end:
                        self.skipTest("an unprivileged user cannot run a daemon: "
                                      + (self.root / "log").read_text())
                    time.sleep(0.05)
                self.report()
            finally:
                daemon.terminate()
        self.assertIn("user 65534 serves it, neither root nor the user of this command", self.index)
        self.assertNotIn("bait", self.index)


if __name__ == "__main__":
    unittest.main()
