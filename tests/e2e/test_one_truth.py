# SPDX-License-Identifier: Apache-2.0
"""mmsql and Perfetto's trace_processor_shell make the same tables of each kind of recording, row by
row.

The test records in every way that mmtrace has, and with Perfetto's own services and our configs.
The peer is the program that TRACE_PROCESSOR_SHELL names, or trace_processor_shell in PATH.
one_truth.py compares the tables; one_truth.csv lists the intended differences.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

import lib
import one_truth
import peers
from test_heap import HELPER, LIBRARY, TRUTH

CONFIGS = lib.ROOT / "configs"
JAVA = lib.ROOT / "tests" / "data" / "java"
REPORTED = "FS/data/misc/perfetto-traces/bugreport/systrace.pftrace"

# Processes come and go, memory and files are used, a thread waits for another.
LOAD = """
import mmap, os, subprocess, sys, tempfile, threading, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    memory = mmap.mmap(-1, 256 * 4096)
    memory.write(bytes(256 * 4096))
    with tempfile.TemporaryFile() as file:
        file.write(os.urandom(20000))
        file.flush()
    thread = threading.Thread(target=time.sleep, args=(0.001,))
    thread.start()
    thread.join()
    subprocess.run(["/bin/true"])
    memory.close()
"""

FTRACE = """
data_sources { config { name: "linux.ftrace" ftrace_config {
  ftrace_events: "sched/sched_switch" ftrace_events: "sched/sched_waking"
    ftrace_events: "sched/sched_process_exec"
  ftrace_events: "sched/sched_process_exit" ftrace_events: "sched/sched_process_free"
    ftrace_events: "task/task_newtask"
  ftrace_events: "task/task_rename" ftrace_events: "vmscan/*" ftrace_events: "compaction/*"
    ftrace_events: "oom/*"
  ftrace_events: "kmem/rss_stat" ftrace_events: "ftrace/print" %s } } }
"""
QUIET_FTRACE = """
data_sources { config { name: "linux.ftrace" ftrace_config {
  ftrace_events: "sched/sched_process_exec" ftrace_events: "sched/sched_process_exit"
    ftrace_events: "task/task_newtask"
  ftrace_events: "sched/sched_process_free" ftrace_events: "vmscan/*" ftrace_events: "compaction/*"
    ftrace_events: "oom/*"
  } } }
"""
COUNTERS = """
data_sources { config { name: "linux.sys_stats" sys_stats_config {
  vmstat_period_ms: 100 meminfo_period_ms: 100 psi_period_ms: 100 buddyinfo_period_ms: 100
    stat_period_ms: 100
  diskstat_period_ms: 100 cpufreq_period_ms: 100 cpuidle_period_ms: 100 thermal_period_ms: 100
    devfreq_period_ms: 100
  slab_period_ms: 500 } } }
data_sources { config { name: "linux.system_info" system_info_config { irq_names: true } } }
"""
PROCESSES = """
data_sources { config { name: "linux.process_stats" process_stats_config {
  scan_all_processes_on_start: true record_thread_names: true record_process_age: true
    record_process_runtime: true
  proc_stats_poll_ms: 100 scan_smaps_rollup: true resolve_process_fds: true } } }
"""
RESIDENCY = """
data_sources { config { name: "linux.page_residency" page_residency_config {
  paths: "/usr/bin" period_ms: 200 max_files: 50 min_file_size_bytes: 65536 } } }
"""
HEAP = """
data_sources { config { name: "linux.heap" heapprofd_config { sampling_interval_bytes: 4096
  pid: %d %s
  block_client: true } } }
"""
RING = "buffers { size_kb: %d fill_policy: RING_BUFFER }\n"
DISCARD = "buffers { size_kb: %d fill_policy: DISCARD }\n"
TRIGGERS = (
    'trigger_config { trigger_mode: %s trigger_timeout_ms: 20000 triggers { name: "go" '
    'stop_delay_ms: 400 } }\n')


def needs_ftrace(test):
    return lib.needs_root(lib.needs_tracefs(test))


def without_our_sources(text):
    """The config without our own data sources: Perfetto refuses fields that it does not know."""
    blocks = re.findall(r"^data_sources \{\n.*?^\}\n", text, re.M | re.S)
    for block in blocks:
        if "page_residency" in block or "perf_map" in block:
            text = text.replace(block, "")
    return text


@unittest.skipUnless(one_truth.SHELL, "trace_processor_shell is not here: nothing to compare")
class OneTruth(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.comparison = one_truth.Comparison()

    @classmethod
    def tearDownClass(cls):
        print(f"one truth: {cls.comparison}", file=sys.stderr)

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-truth-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.trace = self.dir / "trace.pftrace"
        self.env = dict(os.environ, MMTRACE_HEAP_SOCKET=str(self.dir / "heap.sock"))
        self.record_longer = None

    def agree(self, *filled, trace=None, name=None, **more):
        """Both programs make the same tables of the trace; the tables in `filled` have rows."""
        recording = name or self.id().rpartition(".test_")[2]

        def compare():
            return self.comparison.compare(recording, trace or self.trace, self.dir, filled=filled,
                                           **more)
        said = compare()
        # On a busy machine a short recording may have no rows of a source.
        for factor in (4, 16):
            if said and self.record_longer and not trace and all(
                    line.endswith(": empty") for line in said):
                self.record_longer(factor)
                said = compare()
        self.assertEqual(said, [], "\n" + "\n".join(said))

    def start(self, *argv, **options):
        process = subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True,
                                   env=self.env, **options)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def load(self, seconds=0.3):
        subprocess.run([sys.executable, "-c", LOAD, str(seconds)], check=True)

    def config(self, text, name="config.cfg"):
        (self.dir / name).write_text(text)
        return self.dir / name

    def until(self, condition, what, timeout_s=30):
        end = time.monotonic() + timeout_s
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    def finish(self, recorder, code=0):
        _, said = recorder.communicate(timeout=60)
        self.assertEqual(recorder.returncode, code, said)
        return said

    def record(self, text, *options):
        """Records while the load runs."""
        def record(factor):
            longer = re.sub(r"duration_ms: (\d+)", lambda ms: f"duration_ms: {factor * int(ms[1])}",
                            text)
            recorder = self.start(lib.MMTRACE, "record", "-c", self.config(longer), "-o",
                                  self.trace, *options)
            time.sleep(0.3)
            self.load()
            return self.finish(recorder)
        self.record_longer = record
        return record(1)

    def daemon(self):
        daemon = peers.Daemon()
        daemon.__enter__()
        self.addCleanup(daemon.stop)
        self.env.update(daemon.env)
        return daemon

    def command(self, *argv, **options):
        done = lib.run(lib.MMTRACE, *argv, env=self.env, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def sessions(self):
        done = lib.run(lib.MMTRACE, "status", "--json", env=self.env)
        return json.loads(done.stdout)["sessions"] if done.returncode == 0 else []

    def is_recording(self):
        return any(session["is_started"] for session in self.sessions())

    def until_records(self, recorder):
        end = time.monotonic() + 30
        while not self.is_recording():
            if recorder.poll() is not None or time.monotonic() > end:
                recorder.terminate()
                self.fail(f"no session records: {recorder.communicate(timeout=60)[1]}")
            time.sleep(0.05)

    # Sources, buffers and files.

    @needs_ftrace
    def test_all_sources(self):
        target = self.start(TRUTH, "1", "50000000")
        # A map of any other process may name a process that has ended before its name is read. The
        # peer does not know the packets of maps, and has no row for this process.
        perf_map = pathlib.Path(f"/tmp/perf-{target.pid}.map")
        perf_map.write_text("1000 10 a\n2000 10 b\n")
        self.addCleanup(perf_map.unlink)
        self.record("duration_ms: 1500\n" + DISCARD
                    % 8192 + QUIET_FTRACE + COUNTERS + PROCESSES + RESIDENCY
                    + 'data_sources { config { name: "linux.perf_map" perf_map_config '
                      f'{{ pids: {target.pid} }} }} }}\n'
                    + HEAP % (target.pid, "continuous_dump_config { dump_interval_ms: 400 }"))
        self.agree("ftrace_event", "counter", "process", "cpu", "heap_profile_allocation",
                   "filedescriptor")

    @needs_ftrace
    def test_all_of_compact_scheduling(self):
        self.record("duration_ms: 900\n" + RING % 512 + FTRACE
                    % "compact_sched { enabled: true } symbolize_ksyms: true"
                    + PROCESSES)
        self.agree("sched_slice", "thread_state")

    @needs_ftrace
    def test_ring_wrapped(self):
        self.record("duration_ms: 1200\n" + RING % 512 + FTRACE % "drain_period_ms: 100"
                    + PROCESSES + COUNTERS)
        self.agree("ftrace_event", "process", "counter", "sched_slice")

    @needs_ftrace
    def test_ring_wrapped_residency_and_heap(self):
        target = self.start(TRUTH, "1", "50000000")
        # The heap has a buffer of its own: in a common buffer, the events of a busy machine would
        # overwrite all dumps.
        heap = HEAP % (target.pid, "continuous_dump_config { dump_interval_ms: 100 }")
        self.record("duration_ms: 1500\n" + RING % 512 + RING % 128 + FTRACE
                    % "drain_period_ms: 100" + RESIDENCY + PROCESSES
                    + heap.replace("config {", "config { target_buffer: 1 ", 1))
        self.agree("heap_profile_allocation", losses=("heapprofd_missing_packet",))

    @needs_ftrace
    def test_compressed(self):
        self.record("duration_ms: 900\ncompression_type: COMPRESSION_TYPE_DEFLATE\n" + RING
                    % 512 + FTRACE % "" + PROCESSES
                    + COUNTERS)
        self.agree("ftrace_event", "process", "counter")

    @needs_ftrace
    def test_streamed(self):
        self.record(
            "duration_ms: 1200\nwrite_into_file: true file_write_period_ms: 100 flush_period_ms: "
            "200\n" + RING % 512
            + FTRACE % "drain_period_ms: 100" + PROCESSES + COUNTERS)
        self.agree("ftrace_event", "process", "counter")

    def test_streamed_without_a_flush_period(self):
        self.record("duration_ms: 700\nwrite_into_file: true file_write_period_ms: 100\n" + RING
                    % 512 + COUNTERS)
        self.agree("counter")

    @needs_ftrace
    def test_streamed_compressed_full_config(self):
        text = (CONFIGS / "full.cfg").read_text().replace("duration_ms: 60000", "duration_ms: 700")
        self.assertIn("duration_ms: 700", text)
        self.record(text)
        self.agree("ftrace_event", "process", "counter", "sched_slice")

    @needs_ftrace
    def test_state_cleared_again_and_again(self):
        self.record("duration_ms: 1200\nincremental_state_config { clear_period_ms: 200 }\n" + RING
                    % 512
                    + FTRACE % "symbolize_ksyms: true" + PROCESSES + COUNTERS + RESIDENCY)
        self.agree("ftrace_event", "process", "counter")

    # Losses.

    @needs_ftrace
    def test_storm_that_overruns_the_kernel_buffer(self):
        self.record("duration_ms: 900\n" + RING % 512
                    + FTRACE
                    % 'buffer_size_kb: 4 drain_period_ms: 400 ftrace_events: "raw_syscalls/*"'
                    + PROCESSES)
        self.agree("ftrace_event", losses=("ftrace_cpu_has_data_loss", "ftrace_cpu_overrun*",
                                           "ftrace_setup_errors", "misplaced_end_event"))

    @needs_ftrace
    def test_storm_that_fills_the_buffer(self):
        self.record("duration_ms: 900\n" + DISCARD % 128 + FTRACE
                    % 'ftrace_events: "raw_syscalls/*"' + PROCESSES + COUNTERS)
        self.agree("process", losses=("traced_buf_*", "ftrace_*", "packet_*"))

    # Sessions.

    def record_under_load(self, text):
        """Starts a recorder that records through the daemon, and runs the load. The recorder goes
        on."""
        recorder = self.start(lib.MMTRACE, "record", "-c", self.config(text), "-o",
                              self.dir / "whole.pftrace")
        self.until_records(recorder)
        self.load()
        return recorder

    @needs_ftrace
    def test_cloned(self):
        self.daemon()
        text = ("duration_ms: 20000\nunique_session_name: 'cloned'\n" + RING % 512 + FTRACE % ""
                + PROCESSES + COUNTERS)
        recorder = self.record_under_load(text)
        self.command("clone", "cloned", "-o", self.trace)
        recorder.send_signal(signal.SIGTERM)
        self.finish(recorder)
        self.agree("ftrace_event", "process", "counter")
        self.agree("ftrace_event", trace=self.dir / "whole.pftrace", name="cloned_from")

    @needs_ftrace
    def test_cloned_of_streamed(self):
        self.daemon()
        text = ("duration_ms: 20000\nunique_session_name: 'cloned'\nwrite_into_file: true "
                "file_write_period_ms: 100 flush_period_ms: 200\n"
                + RING % 512 + FTRACE % "drain_period_ms: 100" + PROCESSES + COUNTERS)
        recorder = self.record_under_load(text)
        self.command("clone", "cloned", "-o", self.trace)
        recorder.send_signal(signal.SIGTERM)
        self.finish(recorder)
        self.agree("ftrace_event", "process", "counter")

    @needs_ftrace
    def test_bugreport(self):
        self.daemon()
        text = ("duration_ms: 20000\nbugreport_score: 5\n" + RING % 512 + FTRACE % ""
                + PROCESSES + COUNTERS)
        recorder = self.record_under_load(text)
        report = self.dir / "report.zip"
        self.command("bugreport", "-o", report)
        recorder.send_signal(signal.SIGTERM)
        self.finish(recorder)
        with zipfile.ZipFile(report) as archive:
            self.trace.write_bytes(archive.read(REPORTED))
        self.agree("ftrace_event", "process", "counter")

    @needs_ftrace
    def test_detached(self):
        self.daemon()
        text = ("write_into_file: true file_write_period_ms: 100 flush_period_ms: 200\n" + RING
                % 512
                + FTRACE % "drain_period_ms: 100" + PROCESSES + COUNTERS)
        self.command("record", "-c", self.config(text), "-o", self.trace, "--detach=key")
        self.until(self.is_recording, "no session records")
        self.load()
        self.command("record", "--attach=key", "--stop")
        self.agree("ftrace_event", "process", "counter")

    def triggered(self, mode, out=None):
        self.daemon()
        text = RING % 512 + FTRACE % "" + PROCESSES + COUNTERS + TRIGGERS % mode
        recorder = self.start(lib.MMTRACE, "record", "-c", self.config(text), "-o", self.trace)
        if mode == "START_TRACING":
            self.until(self.sessions, "no session is armed")
            time.sleep(0.3)
        else:
            self.until_records(recorder)
            self.load()
        self.command("trigger", "go")
        self.load(0.3)
        if out:
            self.until(lambda: out.exists() and out.stat().st_size, "no snapshot")
            recorder.send_signal(signal.SIGTERM)
        self.finish(recorder)

    @needs_ftrace
    def test_trigger_starts(self):
        """The ring keeps both ends, and counts the data between them as lost."""
        self.triggered("START_TRACING")
        self.agree("ftrace_event", "process", "counter",
                   losses=("traced_buf_trace_writer_packet_loss",))

    @needs_ftrace
    def test_trigger_stops(self):
        self.triggered("STOP_TRACING")
        self.agree("ftrace_event", "process", "counter")

    @needs_ftrace
    def test_trigger_snapshots(self):
        out = self.dir / "trace.pftrace.0"
        self.triggered("CLONE_SNAPSHOT", out)
        self.agree("ftrace_event", "process", "counter", trace=out)

    # Heaps.

    def heap(self, *options, ms=1200, do=None):
        target = self.start(TRUTH, "1", "50000000")
        recorder = self.start(lib.MMTRACE, "heap", "-o", self.trace, "-p", target.pid, *options,
                              *([] if do else ["-d", ms]))
        if do:
            self.until(lambda: lib.run(lib.MMTRACE, "heap", "--snapshot", "-p", target.pid,
                                       env=self.env).returncode == 0,
                       "no session records")
            do(recorder, target)
            time.sleep(0.2)
            recorder.send_signal(signal.SIGINT)
        self.finish(recorder)

    @unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")
    def test_heap_at_the_end(self):
        self.heap()
        self.agree("heap_profile_allocation", "stack_profile_frame")

    @unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")
    def test_heap_continuous(self):
        self.heap("-c", "200")
        self.agree("heap_profile_allocation")

    @unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")
    def test_heap_snapshot(self):
        def ask(_, target):
            for _ in range(2):
                time.sleep(0.2)
                self.command("heap", "--snapshot", "-p", target.pid)
        self.heap(do=ask)
        self.agree("heap_profile_allocation")

    @unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")
    def test_heap_sigusr1(self):
        def ask(recorder, _):
            for _ in range(3):
                time.sleep(0.2)
                recorder.send_signal(signal.SIGUSR1)
        self.heap(do=ask)
        self.agree("heap_profile_allocation")

    @unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")
    def test_heap_at_its_largest(self):
        self.heap("--dump-at-max")
        self.agree("heap_profile_allocation")

    @unittest.skipUnless(LIBRARY.exists(), "libmmheap.so is not in this build")
    def test_heap_from_the_beginning(self):
        self.command("heap", "-q", "-c", "100", "-o", self.trace, "--", sys.executable, "-c",
                     "import time\nk = []\nfor i in range(12): k.append([bytes(5000) for _ in "
                     "range(500)]); time.sleep(0.05)")
        self.agree("heap_profile_allocation")

    @unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")
    def test_heap_ring_and_streamed(self):
        target = self.start(TRUTH, "1", "50000000")
        heap = HEAP % (target.pid, "continuous_dump_config { dump_interval_ms: 50 }")
        self.record("duration_ms: 2500\n" + RING % 64 + heap)
        self.agree("heap_profile_allocation", losses=("heapprofd_missing_packet",))
        self.record(
            "duration_ms: 1500\nwrite_into_file: true file_write_period_ms: 100 flush_period_ms: "
            "200\n" + RING % 512 + heap)
        self.agree("heap_profile_allocation", name="heap_streamed")

    @unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")
    @lib.needs_root
    def test_heap_of_the_daemon(self):
        self.daemon()
        targets = [self.start(TRUTH, "1", "50000000") for _ in range(2)]
        text = ("duration_ms: 20000\nunique_session_name: 'heap'\n" + RING % 512 + PROCESSES
                + HEAP % (targets[0].pid, f"pid: {targets[1].pid}"))
        recorder = self.start(lib.MMTRACE, "record", "-c", self.config(text), "-o",
                              self.dir / "whole.pftrace")
        for target in targets:
            self.until(lambda t=target: lib.run(lib.MMTRACE, "heap", "--snapshot", "-p", t.pid,
                                                env=self.env).returncode == 0,
                       "no profile")
        for _ in range(2):
            time.sleep(0.2)
            self.command("heap", "--snapshot")
        self.command("clone", "heap", "-o", self.trace)
        recorder.send_signal(signal.SIGTERM)
        self.finish(recorder)
        self.agree("heap_profile_allocation", "process")
        self.agree("heap_profile_allocation", trace=self.dir / "whole.pftrace",
                   name="heap_of_the_daemon_whole")

    # Runtimes.

    @lib.needs_program("javac")
    def test_java(self):
        self.assertEqual(lib.run("javac", "--release", "17", "-d", self.dir,
                                 *JAVA.glob("*.java")).returncode, 0)
        self.command("heap", "-q", "-i", "4k", "-c", "300", "--heaps",
                     "libc.malloc,com.android.art", "-o", self.trace, "--",
                     "java", "-cp", self.dir, "Allocations", "keep", "50000")
        self.agree("heap_profile_allocation")

    @lib.needs_program("node")
    def test_perf_maps(self):
        app = self.dir / "app.js"
        app.write_text(
            "const kept = [];\nfunction hungry(i) { kept.push(Buffer.allocUnsafeSlow(100000 + i)); "
            "}\n"
            "for (let i = 0; i < 300; i++) hungry(i % 10);\n")
        self.command("heap", "-q", "-c", "100", "-i", "4096", "-o", self.trace, "--", "node",
                     "--perf-basic-prof",
                     "--interpreted-frames-native-stack", app, cwd=self.dir)
        for path in set(re.findall(rb"/tmp/perf-\d+\.map", self.trace.read_bytes())):
            pathlib.Path(path.decode()).unlink(missing_ok=True)
        self.agree("heap_profile_allocation", "stack_profile_frame")

    # Perfetto's own recordings, with our configs.

    @unittest.skipUnless(peers.find_perfetto(),
                         "Perfetto is not here: neither in PATH nor in PERFETTO_ROOT")
    @needs_ftrace
    def test_recordings_by_perfetto(self):
        with peers.Traced(*peers.find_perfetto()) as traced:
            self.env.update(traced.env)
            for name, duration in (("full", "duration_ms: 60000"), ("mm_events", None)):
                with self.subTest(config=name):
                    text = without_our_sources((CONFIGS / f"{name}.cfg").read_text())
                    if duration:
                        text = text.replace(duration,
                                            "duration_ms: 700").replace("write_into_file: true", "")
                    else:
                        text = text.replace("stop_delay_ms: 360000", "stop_delay_ms: 1200")
                    out = traced.dir / f"{name}.pftrace"
                    (traced.dir / f"{name}.cfg").write_text(text)
                    client = self.start(*traced.argv("perfetto", "--txt", "-c",
                                                     traced.dir / f"{name}.cfg", "-o", out))
                    if duration is None:
                        self.until(self.sessions, "no session is armed")
                        time.sleep(0.3)
                        self.command("trigger", "kmem_activity")
                    self.load()
                    self.finish(client)
                    self.agree("counter", trace=out, name=f"by_perfetto_{name}",
                               losses=("ftrace_*", "invalid_clock_snapshots"))

    def test_zz_the_list_of_differences_is_needed(self):
        """Runs last: each entry of one_truth.csv made a difference in a recording that it is
        about."""
        self.assertEqual(self.comparison.needless(), [])


if __name__ == "__main__":
    unittest.main()
