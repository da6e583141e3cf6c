# SPDX-License-Identifier: Apache-2.0
"""Heap profiles on the recorder's side: dumps on request, limits, several recordings, programs that
ask the daemon."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest

import states
from lib import MMSQL, MMTRACE, ROOT, decode, of_kind, run, wait_for
from test_heap import HELPER, LIBRARY, TRUTH, Recorders

CONFIG = """
buffers {{ size_kb: 16384 }}
data_sources {{ config {{ name: "linux.heap" heapprofd_config {{ {fields} }} }} }}
duration_ms: {ms}
"""


@unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")
class Service(Recorders):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="heap-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.trace = self.dir / "heap.pftrace"

    def start(self, *argv, **more):
        process = subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE,
                                   text=True, **more)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_piped(self, *argv):
        process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def query(self, sql, trace=None):
        database = self.dir / "heap.db"
        database.unlink(missing_ok=True)
        result = run(MMSQL, "convert", "-q", trace or self.trace, "-o", database)
        self.assertEqual(result.returncode, 0, result.stderr)
        with contextlib.closing(sqlite3.connect(database)) as connection:
            return connection.execute(sql).fetchall()

    def stat(self, name):
        return sum(row[0] for row in self.query(f"select value from stats where name = '{name}'"))

    def n_dumps(self):
        return self.query("select count(distinct ts_end) from heap_profile")[0][0]

    def config(self, fields, ms, name="heap.cfg"):
        path = self.dir / name
        path.write_text(CONFIG.format(
            fields=fields if "sampling_interval" in fields
            else "sampling_interval_bytes: 4096 " + fields, ms=ms))
        return path

    def end(self, recorder, code=0):
        """Ends the recorder, and returns the rest of its messages."""
        recorder.send_signal(signal.SIGINT)
        said = recorder.communicate(timeout=60)[1]
        self.assertEqual(recorder.returncode, code, said)
        return said


class Snapshot(Service):
    def ask(self, *options):
        return run(MMTRACE, "heap", "--snapshot", *options)

    def test_of_a_running_profile(self):
        target = self.start(TRUTH, "1", "50000000")
        recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-p", target.pid)
        self.until_said(recorder, "attached")
        states.wait_for_cpu(target.pid)
        wait_for(lambda: self.ask("--pid", str(target.pid)).returncode == 0, "a dump")
        states.wait_for_taken(recorder.pid, signal.SIGUSR1)
        states.wait_for_cpu(target.pid)
        done = self.ask("--pid", str(target.pid))
        self.assertEqual(done.stderr,
                         f"mmtrace: process {recorder.pid} dumps the profile of process "
                         f"{target.pid}\n")
        states.wait_for_taken(recorder.pid, signal.SIGUSR1)
        states.wait_for_cpu(target.pid)
        recorder.send_signal(signal.SIGUSR1)
        states.wait_for_taken(recorder.pid, signal.SIGUSR1)
        states.wait_for_cpu(target.pid)
        self.end(recorder)
        # Two dumps by --snapshot, a dump by SIGUSR1, and the last dump.
        self.assertEqual(self.n_dumps(), 4)
        sizes = self.query(
            "select sum(size) from heap_profile_allocation where size > 0 group by ts order by ts")
        self.assertEqual(len(sizes), 4)
        self.assertTrue(all(size > 0 for size, in sizes), sizes)

    def test_process_without_a_profile(self):
        target = self.start("sleep", "30")
        done = self.ask("--pid", str(target.pid))
        self.assertEqual((done.returncode, done.stderr),
                         (1, "mmtrace: no heap profile is being recorded of these processes\n"))
        self.assertEqual(run(MMTRACE, "heap", "--snapshot", "--", "true").returncode, 2)
        self.assertIsNone(target.poll())

    def test_a_peak_has_one_dump(self):
        target = self.start(TRUTH, "1", "50000000")
        recorder = self.start(MMTRACE, "heap", "--dump-at-max", "-o", self.trace, "-p", target.pid)
        wait_for(lambda: self.ask("--pid", str(target.pid)).returncode == 0, "a dump")
        said = self.until_said(recorder, "dump_at_max makes one dump")
        self.end(recorder)
        self.assertEqual(self.n_dumps(), 1)


class Silent(Service):
    """A program that asks for a profile and does not begin, as programs with an older library.

    The recorder stands still until the program has asked. The test traces the program, so that the
    recorder cannot attach.
    """

    CODE = """
import ctypes, socket, sys, time
PTRACE_TRACEME = 0
assert ctypes.CDLL(None).ptrace(PTRACE_TRACEME, 0, None, None) == 0
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect('\\0' + sys.argv[1])
print('asked', file=sys.stderr, flush=True)
_, fds, _, _ = socket.recv_fds(s, 1, 1)
assert len(fds) == 1
time.sleep(float(sys.argv[2]))
"""

    def check(self, seconds):
        name = f"silent-{os.getpid()}"
        address = f"mmtrace-test-{name}"
        recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-n", name,
                              env={**os.environ, "MMTRACE_HEAP_SOCKET": f"@{address}"})
        wait_for(lambda: f"@{address}" in pathlib.Path("/proc/net/unix").read_text(), "its socket")
        recorder.send_signal(signal.SIGSTOP)
        process = self.start(name, "-c", self.CODE, address, seconds,
                             executable=shutil.which("python3"))
        self.assertEqual(process.stderr.readline(), "asked\n")
        recorder.send_signal(signal.SIGCONT)
        said = self.until_said(recorder,
                               f"process {process.pid} is not profiled: it asked for a profile but "
                               "did not begin")
        recorder.send_signal(signal.SIGINT)
        said += recorder.communicate(timeout=60)[1]
        self.assertEqual(recorder.returncode, 1, said)

    def test_the_program_ends(self):
        self.check(0)

    def test_the_program_runs_on(self):
        self.check(300)


class Missing(Service):
    """Processes that do not exist: the command says so, and does not wait."""

    def setUp(self):
        super().setUp()
        child = self.start("true")
        child.wait()
        self.pid = child.pid
        self.text = f"process {self.pid}"

    def test_none_is_there(self):
        self.trace.write_bytes(b"old")
        done = run(MMTRACE, "heap", "-o", self.trace, "-p", self.pid)
        self.assertEqual((done.returncode, done.stderr),
                         (1, f"mmtrace: {self.text}: there is no such process\n"))
        self.assertEqual(self.trace.read_bytes(), b"old")

    def test_one_is_there(self):
        target = self.start("sleep", "60")
        recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-p", self.pid, "-p", target.pid)
        said = self.until_said(recorder, f"process {target.pid}: attached")
        self.assertIn(f"linux.heap: {self.text} is not profiled: there is no such process\n", said)
        self.end(recorder)

    def test_of_a_config(self):
        done = run(MMTRACE, "record", "--no-daemon", "-c", self.config(f"pid: {self.pid}", 100),
                   "-o", self.trace)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.splitlines()[-1],
                         f"mmtrace: linux.heap: {self.text} is not profiled: there is no such "
                         "process")

    def test_of_java(self):
        target = self.start("sleep", "60")
        config = self.config(f'pid: {target.pid} heaps: "com.android.art"', 100)
        done = run(MMTRACE, "record", "--no-daemon", "-c", config, "-o", self.trace)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.splitlines()[-1],
                         f"mmtrace: linux.heap: no Java heap of process {target.pid}: it runs no "
                         "Java VM")


class Limits(Service):
    def record_attached(self, config, target):
        recorder = self.start(MMTRACE, "record", "-c", config, "-o", self.trace)
        self.until_said(recorder, f"process {target.pid}: attached")
        states.wait_for_cpu(target.pid)
        self.end(recorder)

    def test_cpu(self):
        """Every allocation of a thread keeps the recorder busy."""
        target = self.start(TRUTH, "1", "50000000")
        config = self.config(
            f"pid: {target.pid} sampling_interval_bytes: 1 max_heapprofd_cpu_secs: 1", 60000)
        recorder = self.start(MMTRACE, "record", "-c", config, "-o", self.trace)
        self.until_said(recorder, "the profile ends")
        self.end(recorder)
        self.assertEqual(
            self.query("select value from stats where name = 'heapprofd_hit_guardrail'"), [(1,)])
        self.assertIsNone(target.poll())

    def test_every_field_is_explained(self):
        proto = (ROOT / "protos" / "config" / "profiling_config.proto").read_text()
        message = proto[
            proto.index("message HeapprofdConfig {"):proto.index("message JavaHprofConfig")]
        fields = set(re.findall(r"^    (?:optional|repeated) \S+ (\w+) = \d+;", message,
                                re.MULTILINE))
        self.assertGreater(len(fields), 20)
        items = [line for line in (ROOT / "docs" / "heap.md").read_text().splitlines()
                 if line.startswith("- `")]
        named = {name for line in items for name in re.findall(r"`(\w+)`", line.split(":")[0])}
        self.assertEqual(fields - named, set())

    def test_small_processes_are_passed_over(self):
        small, large = self.start("sleep", "60"), self.start(TRUTH, "1", "50000000")
        wait_for(lambda: int((re.search(r"RssAnon:\s+(\d+)", states.proc_text(large.pid, "status"))
                              or "00")[1]) > 5000,
                 "memory of the large one")
        config = self.config(
            f"pid: {small.pid} pid: {large.pid} min_anonymous_memory_kb: 4000 no_startup: true",
            60000)
        self.record_attached(config, large)
        self.assertEqual(self.query(
            "select distinct pid from process join heap_profile using (upid)"), [(large.pid,)])

    def test_files_without_names(self):
        target = self.start(TRUTH, "1", "50000000")
        config = self.config(f'pid: {target.pid} skip_symbol_prefix: "{TRUTH.parent}/"', 60000)
        self.record_attached(config, target)
        rows = self.query(
            "select m.name like '%/heap_truth', count(nullif(f.name, '')) from stack_profile_frame "
            "f"
            " join stack_profile_mapping m on m.id = f.mapping group by 1 order by 1")
        self.assertEqual(rows[-1], (1, 0), rows)

    def test_waiting_has_an_end(self):
        """A recorder that stands still for longer than block_client_timeout_us."""
        target = self.start(TRUTH, "1", "50000000")
        config = self.config(
            f"pid: {target.pid} sampling_interval_bytes: 1 shmem_size_bytes: 65536 block_client: "
            "true"
            " block_client_timeout_us: 20000", 60000)
        recorder = self.start(MMTRACE, "record", "-c", config, "-o", self.trace)
        self.until_said(recorder, "attached")
        recorder.send_signal(signal.SIGSTOP)
        states.wait_for_cpu(target.pid, 0.3)  # the program does not wait for the recorder any more
        recorder.send_signal(signal.SIGCONT)
        self.end(recorder)
        dump, = of_kind(decode(self.trace),
                        "profile_packet")[-1].all("profile_packet", "process_dumps")
        self.assertEqual(dump.one("client_error"), "CLIENT_ERROR_HIT_TIMEOUT")
        self.assertIs(dump.one("buffer_overran"), True)

    def test_continuous_dumps(self):
        target = self.start(TRUTH, "1", "50000000")
        config = self.config(
            f"pid: {target.pid} continuous_dump_config {{ dump_phase_ms: 900 dump_interval_ms: 200 "
            f"}}",
            1600)
        self.assertEqual(run(MMTRACE, "record", "-c", config, "-o", self.trace).returncode, 0)
        stamps = sorted({p.one("timestamp") for p in of_kind(decode(self.trace), "profile_packet")})
        # Dumps are due at 900, 1100, 1300, 1500 ms and at the end. A busy machine is late, and
        # leaves some out.
        self.assertIn(len(stamps), (2, 3, 4, 5))
        started, = [p.one("timestamp") for p in of_kind(decode(self.trace), "service_event")
                    if "tracing_started" in p.one("service_event")]
        self.assertGreater((stamps[0] - started) / 1e6, 890)


class Startup(Service):
    def test_a_preloaded_program_is_profiled_from_its_beginning(self):
        socket = {**os.environ, "MMTRACE_HEAP_SOCKET": f"@mmtrace-test-{os.getpid()}"}
        # other tests run heap_truth, too
        program = shutil.copy(TRUTH, self.dir / f"truth-{os.getpid()}")
        recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-i", "1", "-n", program.name,
                              env=socket)
        name = socket["MMTRACE_HEAP_SOCKET"]
        wait_for(lambda: name in pathlib.Path("/proc/net/unix").read_text(), "its socket")
        for _ in range(2):
            done = run(program, "1", "2000", env={**socket, "LD_PRELOAD": str(LIBRARY)})
            self.assertEqual(done.returncode, 0, done.stderr)
        self.end(recorder)
        rows = self.query(
            "select sum(a.size) from heap_profile_allocation a join stack_profile_callsite c"
            " on c.id = a.callsite_id join stack_profile_frame f on f.id = c.frame_id"
            " where f.name = 'keep_small' group by a.upid")
        self.assertEqual(rows, [(200000,), (200000,)])


class Daemons(Service):
    """Sessions of a daemon with folders and sockets of its own."""

    def setUp(self):
        super().setUp()
        self.environment = {**os.environ, **self.more_environment(),
                            "PERFETTO_CONSUMER_SOCK_NAME": f"{self.dir}/consumer",
                            "PERFETTO_PRODUCER_SOCK_NAME": f"{self.dir}/producer"}
        (self.dir / "armed").mkdir()
        self.daemon = self.start(MMTRACE, "daemon", "--armed", self.dir / "armed", "--state-dir",
                                 self.dir / "state",
                                 "--run-dir", self.dir / "run", "--kmem-events", "none",
                                 env=self.environment)
        wait_for(lambda: run(MMTRACE, "status", env=self.environment).returncode == 0,
                 "an answer of the daemon")
        self.socket = self.dir / "run" / "heap.sock"

    def more_environment(self):
        return {}

    def record(self, fields, name):
        before = self.n_recording()
        recorder = self.start(MMTRACE, "record", "-c", self.config(fields, 60000, name + ".cfg"),
                              "-o",
                              self.dir / name, env=self.environment)
        wait_for(lambda: self.n_recording() > before, "the session")
        wait_for(self.socket.exists, "the socket")
        return recorder

    def n_recording(self):
        """The number of sessions that record."""
        sessions = json.loads(run(MMTRACE, "status", "--json",
                                  env=self.environment).stdout)["sessions"]
        return sum(session["is_started"] for session in sessions)

    def wait_attached(self, processes):
        """Waits until the daemon says that it has attached to each process."""
        left = {f"process {p.pid}: attached" for p in processes}
        while left:
            line = self.daemon.stderr.readline()
            self.assertTrue(line, left)
            left = {text for text in left if text not in line}

    def preloaded(self):
        return {**os.environ, "LD_PRELOAD": str(LIBRARY), "MMTRACE_HEAP_SOCKET": str(self.socket)}

    def flags(self, name):
        packets = of_kind(decode(self.dir / name), "profile_packet")
        dumps = [d for p in packets for d in p.all("profile_packet", "process_dumps")]
        return [(bool(d.one("from_startup")), bool(d.one("rejected_concurrent"))) for d in dumps]


class Daemon(Daemons):
    def test_programs_ask_at_startup(self):
        """The first recording gets the process. The second recording reports the process, and ends
        with the exit code of a failure. Later on no process is asked again."""
        first = self.record('process_cmdline: "heap_truth" no_running: true', "first")
        second = self.record('process_cmdline: "heap_truth" no_running: true', "second")
        other = self.record('process_cmdline: "something_else"', "other")
        done = run(TRUTH, "1", "50000", env=self.preloaded())
        self.assertEqual(done.returncode, 0)
        for recorder in (first, other):
            self.end(recorder)
        self.assertRegex(self.end(second, 1), "process [0-9]+ is not profiled: it is being "
                                              "profiled already")
        # A program that waits too long for a busy machine asks once more.
        self.assertEqual(set(self.flags("first")), {(True, False)})
        self.assertEqual(set(self.flags("second")), {(False, True)})
        self.assertEqual(self.flags("other"), [])
        (kept,), = self.query("select sum(size) from heap_profile_allocation where size > 0",
                              self.dir / "first")
        self.assertGreater(kept, 1000000)
        self.assertEqual(self.query(
            "select count(*) from stats where name = 'heapprofd_rejected_concurrent' and value",
            self.dir / "second"), [(1,)])
        wait_for(lambda: not self.socket.exists(), "the end of the socket")
        self.assertEqual(run(TRUTH, "1", "5", env=self.preloaded()).returncode, 0)

    def test_the_loop_goes_on_while_processes_are_let_go(self):
        """Sleeping processes do not remove their hooks themselves, and a stopped process cannot be
        borrowed soon."""
        *sleepers, stopped = [self.start("sleep", "60") for _ in range(4)]
        for _ in range(4):  # a busy machine makes any answer late
            stopped.send_signal(signal.SIGCONT)
            recorder = self.record(" ".join(f"pid: {p.pid}" for p in [*sleepers, stopped]), "first")
            self.wait_attached([*sleepers, stopped])
            stopped.send_signal(signal.SIGSTOP)
            states.wait_for_state(stopped.pid, "T")
            recorder.send_signal(signal.SIGINT)
            longest = 0
            while recorder.poll() is None:
                began = time.monotonic()
                self.assertEqual(run(MMTRACE, "status", env=self.environment).returncode, 0)
                longest = max(longest, time.monotonic() - began)
            self.assertEqual(self.flags("first"), [(False, False)] * 4)
            if longest < 0.45:
                break
        self.assertLess(longest, 0.45)
        # The second recording begins at once: its recorder waits for processes whose first profile
        # is still ending.
        recorder = self.record(" ".join(f"pid: {p.pid}" for p in sleepers), "second")
        self.wait_attached(sleepers)
        self.end(recorder)
        self.assertEqual(self.flags("second"), [(False, False)] * 3)
        stopped.send_signal(signal.SIGCONT)
        self.assertEqual([p.poll() for p in [*sleepers, stopped]], [None] * 4)

    def test_a_dump_of_all_sessions(self):
        target = self.start(TRUTH, "1", "50000000")
        recorder = self.record(f"pid: {target.pid}", "first")
        wait_for(lambda: "memfd:mmheap " in states.proc_text(target.pid, "maps"),
                 "the profile of the target")
        states.wait_for_cpu(target.pid)  # a dump without a new sample has no rows
        wait_for(lambda: run(MMTRACE, "heap", "--snapshot", "-p", str(target.pid)).returncode == 0,
                 "a dump")
        states.wait_for_taken(self.daemon.pid, signal.SIGUSR1)
        states.wait_for_cpu(target.pid)
        self.end(recorder)
        self.trace = self.dir / "first"
        self.assertEqual(self.n_dumps(), 2)
        self.assertIsNone(self.daemon.poll())


class SlowHelper(Daemons):
    """The helper that attaches is still running when the recording ends."""

    def more_environment(self):
        helper = self.dir / HELPER.name
        helper.write_text("#!/bin/sh\nexec sleep 60\n")
        helper.chmod(0o755)
        return {"MMTRACE_HEAP_LIBRARY": shutil.copy(LIBRARY, self.dir)}

    def early(self, pid):
        return (f"linux.heap: process {pid} is not profiled: the recording ended before its "
                "profile began (record for longer)")

    def record_all(self, *targets):
        fields = " ".join(f"pid: {target.pid}" for target in targets)
        return run(MMTRACE, "record", "-c", self.config(fields, 300), "-o", self.trace,
                   env=self.environment)

    def test_a_recording_that_ends_first(self):
        target = self.start("sleep", "60")
        done = self.record_all(target)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.splitlines()[-1], "mmtrace: " + self.early(target.pid))
        decode(self.trace)

    def test_processes_that_wait_for_their_turn(self):
        """Four helpers run at a time. The log of the daemon has one line for all processes."""
        targets = [self.start("sleep", "60") for _ in range(6)]
        done = self.record_all(*targets)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(done.stderr.splitlines()[-1],
                      ["mmtrace: " + self.early(target.pid) for target in targets])
        said = self.until_said(self.daemon,
                               "6 processes are not profiled because the recording ended")
        self.assertEqual(said.count("the recording ended before"), 1, said)

    def test_a_program_that_was_asked(self):
        """The program would take its ring at its next allocation, which does not come."""
        target = self.start("sleep", "60", env=self.preloaded())
        states.wait_for_program(target.pid, "sleep")
        done = self.record_all(target)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("is not profiled: ", done.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
