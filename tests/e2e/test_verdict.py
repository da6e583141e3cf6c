# SPDX-License-Identifier: Apache-2.0
"""The verdict: mmsql's sentences about traces, and the places where mmtrace shows them."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from unittest import mock

import lib
import test_daemon

GOLDEN = lib.ROOT / "tests" / "golden"
PRESSURE = GOLDEN / "mm_pressure.pftrace"

QUIET_CONFIG = """\
buffers { size_kb: 1024 }
duration_ms: 300
data_sources { config { name: "linux.sys_stats" sys_stats_config {
  vmstat_period_ms: 100 vmstat_counters: VMSTAT_NR_FREE_PAGES
    vmstat_counters: VMSTAT_PGSCAN_DIRECT } } }
"""


SLOW_S = 120  # the daemon's child, which makes the verdict, has the lowest priority
TRIGGER = 'trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 3600000 ' \
          'triggers { name: "now" stop_delay_ms: 300 } }\n'


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mmtrace-test-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def with_slow_mmsql(self, script="echo so far; exec sleep 60"):
        """A copy of mmtrace, and beside it an mmsql that prints a line and then stays for a
        minute."""
        mmtrace = pathlib.Path(shutil.copy(lib.MMTRACE, self.dir))
        shutil.copy(pathlib.Path("/bin/sh").resolve(), self.dir / "mmsql")
        (self.dir / "verdict").write_text(f"echo $$ > {self.dir}/pid; {script}\n")
        return mmtrace

    def slow_one_is_gone(self):
        """Whether the slow mmsql has ended, or was ended before it wrote its pid."""
        if not (self.dir / "pid").exists():
            return True
        return not pathlib.Path("/proc", (self.dir / "pid").read_text().strip()).exists()


COMPACTIONS = "packet { ftrace_events { cpu: 0 " + "".join(
    f"event {{ timestamp: {ts} pid: {tid} {event} }} " for ts, tid, event in (
        (1000000000, 10, "mm_compaction_begin { sync: 1 }"),
        (1040000000, 10, "mm_compaction_end { sync: 1 status: 1 }"),
        (1100000000, 11, "mm_compaction_begin { sync: 1 }"),
        (1102000000, 11, "mm_compaction_end { sync: 1 status: 1 }"),
        (1200000000, 12, "mm_vmscan_direct_reclaim_begin { order: 0 }"),
        (1200500000, 12, "mm_vmscan_direct_reclaim_end { nr_reclaimed: 5 }"))) + "} }"


class Verdict(Case):
    def test_lines(self):
        done = lib.run(lib.MMSQL, "verdict", PRESSURE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        first, *others = done.stdout.splitlines()
        self.assertRegex(first,
                         r"^Memory was short for 2\.1 s, from 1\.45 s \(2026-11-21 00:54:19 UTC\) "
                         r"to 3\.60 s")
        self.assertRegex(others[0],
                         r"^hog \(pid 25649\) waited most for memory: 5\.5 ms in 8 waits, the "
                         r"longest 5\.0 ms in direct reclaim at 3\.14 s .* Next was sh "
                         r"\(pid 25643\) with 2\.5 ms; all 4 tasks together: 8\.5 ms in "
                         r"13 waits\.$")
        self.assertLessEqual(len(others), 4)

    def test_compaction_that_a_task_requested(self):
        """Nobody waited for longer than a millisecond."""
        (self.dir / "t.pftrace").write_bytes(lib.encode(COMPACTIONS))
        self.assertEqual(
            lib.run(lib.MMSQL, "verdict", self.dir / "t.pftrace").stdout.splitlines()[1],
            "A task without a name (tid 10) compacted memory most: 40 ms in 1 run, the longest "
            "40 ms at 0.00 s. Next was a task without a name (tid 11) with 2.0 ms.")

    def test_table_and_summary_have_the_same(self):
        lines = lib.run(lib.MMSQL, "verdict", PRESSURE).stdout.splitlines()
        done = lib.run(lib.MMSQL, "convert", PRESSURE, "-o", self.dir / "t.db")
        self.assertEqual([line[2:] for line in done.stderr.splitlines()[1:]], lines)
        with sqlite3.connect(self.dir / "t.db") as db:
            rows = db.execute("SELECT text, query, trace_id FROM verdict ORDER BY id").fetchall()
            self.assertEqual([row[0] for row in rows], lines)
            self.assertGreater(len(rows), 1)
            for _, query, trace in rows:
                self.assertTrue(db.execute(query).fetchall())
                self.assertEqual(trace, 0)
        self.assertEqual(lib.run(lib.MMSQL, "verdict", self.dir / "t.db").stdout.splitlines(),
                         lines)

    def test_several_traces_are_named(self):
        done = lib.run(lib.MMSQL, "convert", "-q", PRESSURE, GOLDEN / "sched_deflate.pftrace", "-o",
                       self.dir / "t.db")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        both = lib.run(lib.MMSQL, "verdict", self.dir / "t.db").stdout
        for name in ("mm_pressure", "sched_deflate"):
            alone = lib.run(lib.MMSQL, "verdict", GOLDEN / f"{name}.pftrace").stdout.splitlines()
            lines = "".join(f"  {line}\n" for line in alone)
            self.assertIn(f"{GOLDEN / name}.pftrace:\n{lines}", both)

    def test_archive_and_appended(self):
        with zipfile.ZipFile(self.dir / "report.zip", "w") as archive:
            archive.write(PRESSURE, "FS/data/misc/perfetto-traces/bugreport/systrace.pftrace")
        alone = lib.run(lib.MMSQL, "verdict", PRESSURE).stdout
        done = lib.run(lib.MMSQL, "verdict", self.dir / "report.zip")
        self.assertEqual((done.returncode, done.stdout), (0, alone))
        deflate = GOLDEN / "sched_deflate.pftrace"
        lib.run(lib.MMSQL, "convert", "-q", PRESSURE, "-o", self.dir / "t.db")
        done = lib.run(lib.MMSQL, "convert", "--append", deflate, "-o", self.dir / "t.db")
        both = lib.run(lib.MMSQL, "verdict", PRESSURE, deflate).stdout
        self.assertIn("Memory was compacted", done.stderr)
        self.assertNotIn("Memory was short", done.stderr)  # the verdict on the old trace
        with sqlite3.connect(self.dir / "t.db") as db:
            rows = db.execute("SELECT trace_id, text FROM verdict ORDER BY id").fetchall()
        self.assertEqual(both, "".join(
            f"{path}:\n" + "".join(f"  {text}\n" for trace, text in rows if trace == n)
            for n, path in enumerate((PRESSURE, deflate))))

    def test_wrong_usage_and_no_trace(self):
        self.assertEqual(lib.run(lib.MMSQL, "verdict").returncode, 2)
        (self.dir / "text").write_text("no trace\n" * 100)
        done = lib.run(lib.MMSQL, "verdict", self.dir / "text", PRESSURE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Memory was short", done.stdout)

    def test_names_cannot_reach_the_terminal(self):
        name = "\x1b]0;owned\x07\x1b[31mred\n.pftrace"
        trace, whole = self.dir / name, PRESSURE.read_bytes()
        archive, db = self.dir / "t.zip", self.dir / "t.db"
        trace.write_bytes(whole[:-5])
        (self.dir / f"other{name}").write_bytes(whole[:-50])
        with zipfile.ZipFile(archive, "w") as zipped:
            for n, size in enumerate((-5, -7, -5)):
                zipped.writestr(f"FS/data/misc/perfetto-traces/{n}{name}", whole[:size])
            zipped.writestr("FS/proc/vmstat", "nr_free_pages 12\nno number\x1b[3m\n")
        commands = (("convert", trace, trace, self.dir / f"other{name}", "-o", db),
                    ("convert", archive, "-o", db),
                    ("convert", trace, "-o", self.dir / f"{name}.db"), ("verdict", trace, archive),
                    ("query", trace, "SELECT 1"), ("query", archive, "SELECT 1"))
        for command in commands:
            with self.subTest(command=command[0]):
                done = lib.run(lib.MMSQL, *command)
                self.assertIn("?]0;owned??[31mred?.pftrace", done.stdout + done.stderr)
                self.assertNotRegex(done.stdout + done.stderr, "[\x1b\x07]")

    def test_databases_of_strangers(self):
        most = (1 << 63) - 1
        lies = (f"UPDATE trace SET start_ts = {-most - 1}, end_ts = {most}",
                f"UPDATE trace SET recorded_ts = {-most - 1}, recorded_end_ts = {most}",
                f"UPDATE trace SET realtime_offset = {-most}, ts_shift = {most}",
                "INSERT INTO stats(name, severity, source, value, trace_id) SELECT column1, "
                f"'data_loss', 'trace', {most}, 0 FROM (VALUES(char(27) || '[31m'), "
                "('ftrace_cpu_overrun_delta'), ('ftrace_cpu_dropped_events_delta'), ('y'))",
                f"UPDATE stats SET value = {most} WHERE name GLOB 'traced_buf*'",
                f"UPDATE _arg_set SET ts = {most} - id WHERE ts IS NOT NULL",
                f"UPDATE _arg_set SET ts = (id % 2) * {most} WHERE ts IS NOT NULL",
                "UPDATE counter SET value = 1e300 * ts")
        lib.run(lib.MMSQL, "convert", "-q", PRESSURE, "-o", self.dir / "sound.db")
        for lie in lies:
            with self.subTest(lie=lie):
                path = shutil.copy(self.dir / "sound.db", self.dir / "lie.db")
                with contextlib.closing(sqlite3.connect(path)) as db:
                    db.execute(lie)
                    db.commit()
                for command in (("verdict", path), ("query", path, "SELECT 1")):
                    done = lib.run(lib.MMSQL, *command)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertNotRegex(done.stdout + done.stderr,
                                        r"[\x1b\x07]|runtime error|-\d+ (kernel|packet)")

    def test_database_of_another_version(self):
        lib.run(lib.MMSQL, "convert", "-q", PRESSURE, "-o", self.dir / "t.db")
        with contextlib.closing(sqlite3.connect(self.dir / "t.db")) as db:
            db.execute("DROP TABLE stats")
        done = lib.run(lib.MMSQL, "verdict", self.dir / "t.db")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr,
                         r"t\.db: verdict: no such table: stats \(another version of mmsql may "
                         r"have made ")

    def test_full_output(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([lib.MMSQL, "verdict", PRESSURE], stdout=full,
                                  stderr=subprocess.PIPE, text=True,
                                  check=False)
        self.assertEqual((done.returncode, done.stderr),
                         (1, "mmsql: standard output: No space left on device\n"))


class Confined(Case):
    def waiting(self):
        """Starts an mmsql that gives up its rights and waits for the trace."""
        child = subprocess.Popen([lib.MMSQL, "verdict", "--confined", "-"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        return child

    def status(self, pid):
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        return {name: value.split() for name, value in (line.split(":", 1) for line in lines)}

    def test_rights_and_limits(self):
        child = self.waiting()
        end = time.monotonic() + 30
        while self.status(child.pid)["NoNewPrivs"] != ["1"] or self.status(child.pid)["Uid"][
                0] == "0":
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        status = self.status(child.pid)
        if os.geteuid() == 0:
            self.assertEqual((status["Uid"], status["Gid"], status["Groups"]),
                             (["65534"] * 4, ["65534"] * 4, []))
        self.assertEqual((int(status["CapPrm"][0], 16), int(status["CapEff"][0], 16)), (0, 0))
        self.assertEqual(pathlib.Path(f"/proc/{child.pid}/oom_score_adj").read_text(), "1000\n")
        out, errors = child.communicate()
        self.assertEqual((child.returncode, out), (1, ""))  # nothing came
        self.assertIn("standard input", errors)

    def test_same_verdict(self):
        with open(PRESSURE) as trace:
            done = lib.run(lib.MMSQL, "verdict", "--confined", "-", stdin=trace)
        self.assertEqual(done.stdout, lib.run(lib.MMSQL, "verdict", PRESSURE).stdout)

    @lib.needs_root
    def test_temporary_folder_of_root(self):
        folder = self.dir / "tmp"
        folder.mkdir(mode=0o700)
        with open(PRESSURE) as trace:
            done = lib.run(lib.MMSQL, "verdict", "--confined", "-", stdin=trace,
                           env={**os.environ, "TMPDIR": str(folder)})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("Memory was short", done.stdout)

    @lib.needs_root
    def test_what_root_alone_may_read_is_not_opened(self):
        self.dir.chmod(0o755)
        secret = pathlib.Path(shutil.copy(PRESSURE, self.dir / "secret"))
        secret.chmod(0o600)
        done = lib.run(lib.MMSQL, "verdict", "--confined", secret)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("Permission denied", done.stderr)


class Health(Case):
    """Losses of the trace are printed on standard error, unless --quiet; nothing else changes."""

    SAID = ["1,234 kernel events were lost before they could be read",
            "77 packets did not fit into a full buffer",
            "a source did not hand over its last data in time"]

    def setUp(self):
        super().setUp()
        text = (GOLDEN / "imports" / "verdict_losses.textproto").read_text()
        self.trace = self.dir / "trace"
        self.trace.write_bytes(lib.encode(text))

    def assert_said(self, done):
        self.assertEqual(done.returncode, 0)
        lines = [line for line in done.stderr.splitlines() if line.startswith("mmsql: ")]
        self.assertEqual([line.split(":")[2].strip() for line in lines], self.SAID)
        for line in lines:
            self.assertRegex(line, rf"^mmsql: {self.trace}: .* \([^()]+\)$")

    def test_convert(self):
        done = lib.run(lib.MMSQL, "convert", self.trace, "-o", self.dir / "t.db")
        self.assert_said(done)
        # A line of the verdict alone; here all problems are printed below the verdict.
        self.assertNotIn("other problems", done.stderr)
        done = lib.run(lib.MMSQL, "convert", "--quiet", self.trace, "-o", self.dir / "t.db")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_query(self):
        lib.run(lib.MMSQL, "convert", "-q", self.trace, "-o", self.dir / "t.db")
        for path in (self.trace, self.dir / "t.db"):
            done = lib.run(lib.MMSQL, "query", "--csv", path, "SELECT 1 AS one; SELECT 2 AS two")
            self.assert_said(done)
            self.assertEqual(done.stdout, "one\n1\n\ntwo\n2\n")
            quiet = lib.run(lib.MMSQL, "query", "-q", "--csv", path,
                            "SELECT 1 AS one; SELECT 2 AS two")
            self.assertEqual((quiet.returncode, quiet.stderr, quiet.stdout), (0, "", done.stdout))

    def test_prompt_says_it_once(self):
        done = lib.run(lib.MMSQL, "query", self.trace, input="SELECT 1;\nSELECT 2;\n")
        self.assert_said(done)

    def test_sound_traces_say_nothing(self):
        traces = sorted(GOLDEN.glob("*.pftrace"))
        self.assertGreater(len(traces), 2)
        for trace in traces:
            with self.subTest(trace.stem):
                done = lib.run(lib.MMSQL, "query", trace, "SELECT 1")
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_cut_trace(self):
        """Damage is reported once: when the trace is read; for a database, when the database is
        opened."""
        cut = self.dir / "cut"
        cut.write_bytes(PRESSURE.read_bytes()[:200000])
        done = lib.run(lib.MMSQL, "query", cut, "SELECT 1")
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("ends or breaks at offset", done.stderr)
        lib.run(lib.MMSQL, "convert", "-q", cut, "-o", self.dir / "t.db")
        done = lib.run(lib.MMSQL, "query", self.dir / "t.db", "SELECT 1")
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("ends or breaks at offset", done.stderr)
        self.assertIn("ends or breaks at offset", lib.run(lib.MMSQL, "verdict", cut).stdout)


class Record(Case):
    def record(self, *argv, mmtrace=lib.MMTRACE):
        (self.dir / "config").write_text(QUIET_CONFIG)
        return lib.run(mmtrace, "record", "-c", self.dir / "config", "-o", self.dir / "trace",
                       *argv)

    @lib.needs_tracefs
    def test_events_that_never_come(self):
        """The time without events is a part of the recording."""
        done = lib.run(lib.MMTRACE, "record", "-t", "1200ms", "-o", self.dir / "trace",
                       "oom/mark_victim")
        # The kernel may kill a process of another test.
        self.assertRegex(done.stderr,
                         r"\n  (Quiet for \d\.\d s from 0\.00 s \(|Out of memory|\d)")
        said = lib.run(lib.MMSQL, "query", "-q", "--csv", self.dir / "trace",
                       "SELECT strftime('%s', start_utc) || ' ' || dur || ' ' || (SELECT end_ts - "
                       "start_ts FROM trace_bounds) AS row FROM mmsql_trace").stdout
        start, dur, data = map(int, said.splitlines()[1].split())
        self.assertLess(abs(start - time.time()), 300)
        self.assertGreaterEqual(dur, 1200000000)
        self.assertLess(data, dur)

    def test_a_cut_file_claims_no_quiet_time(self):
        """The statistics of the buffers, at the end of the file, tell whether a buffer lost its
        beginning."""
        trace = ("packet { trusted_packet_sequence_id: 1 timestamp: 1000000000 service_event { "
                 "all_data_sources_started: true } }\n"
                 "packet { trusted_packet_sequence_id: 1 timestamp: 9000000000 service_event { "
                 "tracing_disabled: true } }\n"
                 "packet { trusted_packet_sequence_id: 2 timestamp: 8000000000 sys_stats { vmstat "
                 "{ key: VMSTAT_NR_FREE_PAGES value: 1 } } }\n")
        stats = ("packet { trusted_packet_sequence_id: 1 timestamp: 9000000000 trace_stats { "
                 "buffer_stats { buffer_size: 4096 chunks_overwritten: %d } } }")
        for name, text, dur in (("whole", trace + stats % 0, 8000000000),
                                ("ring", trace + stats % 7, 1000000000),
                                ("cut", trace, 0)):
            with self.subTest(name):
                (self.dir / "t").write_bytes(lib.encode(text))
                said = lib.run(lib.MMSQL, "query", "-q", "--csv", self.dir / "t",
                               "SELECT dur FROM mmsql_trace").stdout
                self.assertEqual(said, f"dur\n{dur}\n")

    def test_end(self):
        done = self.record()
        self.assertEqual(done.returncode, 0, done.stderr)
        verdict = lib.run(lib.MMSQL, "verdict", self.dir / "trace").stdout
        self.assertEqual(done.stderr.split("\n", 1)[1],
                         "".join(f"  {line}\n" for line in verdict.splitlines()))

    def test_quiet(self):
        self.assertEqual(self.record("--quiet").stderr, "")

    def test_without_mmsql(self):
        """Without mmsql, only the lines of the verdict are missing."""
        alone = shutil.copy(lib.MMTRACE, self.dir / "mmtrace")
        done = self.record(mmtrace=alone)
        self.assertEqual(done.returncode, 0)
        if not any(pathlib.Path(folder, "mmsql").exists()
                   for folder in ("/usr/bin", "/usr/local/bin")):
            self.assertRegex(done.stderr, r"^mmtrace: \S+: .* (lost|late)\n$")

    @lib.needs_root
    def test_root_runs_no_program_of_a_stranger(self):
        mmtrace, program = (shutil.copy(made, self.dir) for made in (lib.MMTRACE, lib.MMSQL))

        def has_verdict():
            return "\n  Quiet for " in self.record(mmtrace=mmtrace).stderr
        self.assertTrue(has_verdict())
        shutil.chown(program, 65534)
        self.assertFalse(has_verdict())
        shutil.chown(program, 0, 65534)
        self.assertTrue(has_verdict())
        pathlib.Path(program).chmod(0o775)
        self.assertFalse(has_verdict())
        shutil.chown(mmtrace, 0, 65534)
        self.assertFalse(has_verdict())
        pathlib.Path(mmtrace).chmod(0o775)
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
        self.assertRegex(done.stderr,
                         r"(lost|late)\n  no verdict yet: .* \(mmsql verdict trace\)\n$")
        self.assertTrue(self.slow_one_is_gone())

    def test_a_signal_ends_the_wait(self):
        mmtrace = self.with_slow_mmsql()
        (self.dir / "config").write_text(QUIET_CONFIG)
        for _ in range(5):  # on a busy machine, the signal may come after the wait
            (self.dir / "pid").unlink(missing_ok=True)
            with lib.Popen([mmtrace, "record", "-c", "config", "-o", "trace"], cwd=self.dir,
                           stderr=subprocess.PIPE, text=True) as recorder:
                lib.wait_for(lambda: recorder.poll() is not None or (self.dir / "pid").exists()
                             and (self.dir / "pid").read_text(), "the verdict")
                recorder.send_signal(signal.SIGINT)
                said = recorder.communicate(timeout=60)[1]
            self.assertEqual(recorder.returncode, 0, said)
            self.assertTrue(self.slow_one_is_gone())
            if "no verdict yet" not in said:
                break
        self.assertRegex(said, r"^mmtrace: trace: .* (lost|late)\n$")

    def test_child_that_closes_its_output_and_stays_is_ended(self):
        mmtrace = self.with_slow_mmsql("exec >&- 2>&-; exec sleep 60")
        (self.dir / "config").write_text(QUIET_CONFIG)
        before = time.monotonic()
        done = lib.run(mmtrace, "record", "-c", "config", "-o", "trace", cwd=self.dir)
        self.assertLess(time.monotonic() - before, 20)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(self.slow_one_is_gone())

    def test_parent_that_ignores_its_children(self):
        (self.dir / "config").write_text(QUIET_CONFIG)
        done = lib.run(lib.MMTRACE, "record", "-c", "config", "-o", "trace", cwd=self.dir,
                       preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"(lost|late)\n  (Quiet|kswapd|Memory|no verdict yet)")


HOG = """
import sys
sys.stdin.read(1)
kept = []
for i in range(256):
    kept.append(bytearray(b"x") * (1 << 20))
"""
HOG_LIMIT = 64 << 20
OOM_CONFIG = """\
buffers { size_kb: 8192 }
duration_ms: 60000
data_sources { config { name: "linux.ftrace" ftrace_config { drain_period_ms: 100
  ftrace_events: "vmscan/mm_vmscan_memcg_reclaim_begin"
    ftrace_events: "vmscan/mm_vmscan_memcg_reclaim_end"
  ftrace_events: "oom/mark_victim" } } }
data_sources { config { name: "linux.process_stats" process_stats_config {
  scan_all_processes_on_start: true proc_stats_poll_ms: 100 } } }
"""


def memory_group():
    """A new memory cgroup with a limit of HOG_LIMIT, or None."""
    for parent, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                          ("/sys/fs/cgroup", "memory.max")):
        group = pathlib.Path(parent, f"mmtrace-test-{os.getpid()}")
        with contextlib.suppress(OSError):
            group.mkdir()
            if (group / limit).exists():
                (group / limit).write_text(str(HOG_LIMIT))
                return group
            group.rmdir()
    return None


@lib.needs_tracefs
class OutOfMemory(Case):
    """A process is killed at the limit of a memory cgroup; the sentences agree with the tables."""

    def setUp(self):
        super().setUp()
        group = memory_group()
        if not group:
            self.skipTest(
                "needs root and a memory cgroup that can be made: v1, or v2 with its memory "
                "controller")
        self.addCleanup(group.rmdir)
        hog = subprocess.Popen([sys.executable, "-c", HOG], stdin=subprocess.PIPE)
        self.addCleanup(hog.stdin.close)
        self.addCleanup(hog.wait)
        self.addCleanup(hog.kill)
        (group / "cgroup.procs").write_text(str(hog.pid))
        (self.dir / "config").write_text(OOM_CONFIG)
        done = lib.run(lib.MMTRACE, "record", "--background-wait", "-c", self.dir / "config", "-o",
                       self.dir / "trace")
        self.assertEqual(done.returncode, 0, done.stderr)
        recorder = int(done.stdout)
        try:
            hog.stdin.write(b"x")
            hog.stdin.flush()
            self.assertEqual(hog.wait(SLOW_S), -signal.SIGKILL)
        finally:
            os.kill(recorder, signal.SIGINT)
        self.pid = hog.pid
        end = time.monotonic() + SLOW_S
        while pathlib.Path(f"/proc/{recorder}").exists() and time.monotonic() < end:
            time.sleep(0.05)
        self.lines = lib.run(lib.MMSQL, "convert", self.dir / "trace", "-o",
                             self.dir / "t.db").stderr

    def test_sentences(self):
        name = r"[\w.-]+"
        with sqlite3.connect(self.dir / "t.db") as db:
            [(ts, killer, start)] = db.execute(
                "SELECT e.ts, th.tid, (SELECT recorded_ts FROM trace) FROM ftrace_mark_victim e "
                f"JOIN thread th USING (utid) WHERE e.pid = {self.pid}").fetchall()
            [(n, dur, longest)] = db.execute(
                "SELECT episodes, dur, max_dur FROM reclaim_by_process WHERE "
                f"pid = {self.pid} AND kind = 'memcg reclaim'").fetchall()
        self.assertRegex(self.lines,
                         rf"  Memory ran out: the kernel killed {name} \(pid {self.pid}\) at "
                         rf"{(ts - start) / 1e9:.2f} s \(")
        if killer == self.pid:
            self.assertIn("after a request of its own.", self.lines)
        self.assertIn("A memory cgroup was at its limit", self.lines)
        waited = re.search(
            rf"{name} \(pid {self.pid}\) waited most for memory: ([\d.]+) (ms|s) in ([\d,]+) "
            r"waits?, the longest ([\d.]+) (us|ms|s) in reclaim of its memory cgroup", self.lines)
        if waited:  # other tasks may have waited longer
            unit = {"us": 1e3, "ms": 1e6, "s": 1e9}
            self.assertEqual(int(waited[3].replace(",", "")), n)
            self.assertAlmostEqual(float(waited[1]) * unit[waited[2]] / dur, 1, delta=0.06)
            self.assertAlmostEqual(float(waited[4]) * unit[waited[5]] / longest, 1, delta=0.06)


@lib.needs_root
class Daemon(Case):
    def setUp(self):
        super().setUp()
        sockets = {f"PERFETTO_{kind}_SOCK_NAME": str(self.dir / kind)
                   for kind in ("CONSUMER", "PRODUCER")}
        self.env = {**os.environ, **sockets}
        (self.dir / "armed").mkdir()
        (self.dir / "armed" / "quiet.cfg").write_text(QUIET_CONFIG.replace("duration_ms: 300", "")
                                                      + TRIGGER)

    def daemon(self):
        daemon = test_daemon.Daemon(self.dir, env=self.env, ipc=True)
        self.addCleanup(daemon.end, signal.SIGKILL)
        daemon.wait(lambda: "armed/quiet.cfg: armed" in daemon.said())
        daemon.wait(lambda: self.trigger(daemon) > 0)
        return daemon

    def trigger(self, daemon):
        """The traces written so far; a trigger between two sessions has no effect."""
        lib.run(lib.MMTRACE, "trigger", "now", env=self.env)
        return daemon.said().count("quiet.cfg: wrote")

    def test_log_has_the_verdict(self):
        daemon = self.daemon()
        trace = daemon.files()[0]
        lines = lib.run(lib.MMSQL, "verdict", trace).stdout.splitlines()
        self.assertTrue(lines)
        daemon.wait(
            lambda: all(f"mmtrace: {trace.name}: {line}\n" in daemon.said() for line in lines),
            SLOW_S)

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
        daemon.wait((self.dir / "pid").exists, SLOW_S)
        daemon.wait(lambda: self.trigger(daemon) > 1)  # the daemon works on meanwhile
        before = time.monotonic()
        self.assertEqual(daemon.end(), 0)
        self.assertLess(time.monotonic() - before, 20)
        self.assertTrue(self.slow_one_is_gone())


if __name__ == "__main__":
    unittest.main()
