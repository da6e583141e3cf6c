# SPDX-License-Identifier: Apache-2.0
"""mmsql and Perfetto's trace_processor_shell make the same tables of recordings of this machine,
row by row.

The peer is the program that TRACE_PROCESSOR_SHELL names, or trace_processor_shell in PATH.
one_truth.py compares the tables.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import lib
import one_truth
import states

# A small buffer loses events, and the kernel's own buffers may lose some, too.
LOSSES = ("traced_buf_*", "ftrace_*", "packet_*")

# While the load runs, processes and threads come and go, memory, files and TCP are used, and a
# thread waits for another at a pipe.
LOAD = """
import mmap, os, socket, subprocess, tempfile, threading, time
end = time.monotonic() + 0.4
while time.monotonic() < end:
    memory = mmap.mmap(-1, 64 * 4096)
    for page in range(64):
        memory[page * 4096] = 1
    memory.close()
    with tempfile.TemporaryFile() as file:
        file.write(os.urandom(20000))
        file.flush()
    thread = threading.Thread(target=time.sleep, args=(0.001,))
    thread.start()
    thread.join()
    subprocess.run(["/bin/true"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client, server.accept()[0] as peer:
            client.sendall(bytes(5000))
            peer.recv(5000)
    if os.fork() == 0:
        time.sleep(0.001)
        os._exit(3)
    os.wait()
"""

PROCESSES = """
data_sources { config { name: "linux.process_stats" process_stats_config {
  scan_all_processes_on_start: true record_thread_names: true record_process_age: true
    proc_stats_poll_ms: 100 } } }
"""


def ftrace(*events, more=""):
    names = " ".join(f'ftrace_events: "{event}"' for event in events)
    return (f'data_sources {{ config {{ name: "linux.ftrace" ftrace_config {{ {names} {more} }} }} '
            f'}}\n')


def trace_marker(*texts):
    for text in texts:
        for marker in (lib.TRACEFS / "instances").glob("*/trace_marker"):
            with contextlib.suppress(OSError):
                marker.write_text(text)


SCHED = ("sched/sched_switch", "sched/sched_waking", "sched/sched_wakeup_new",
         "sched/sched_process_exec",
         "sched/sched_process_exit", "sched/sched_process_free", "task/task_newtask",
         "task/task_rename")


@unittest.skipUnless(one_truth.SHELL, "trace_processor_shell is not here: nothing to compare")
class TraceProcessorTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-test-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def record(self, text, size_kb):
        """A trace of the load."""
        path, trace = self.dir / "config.cfg", self.dir / "trace.pftrace"
        path.write_text(f"buffers {{ size_kb: {size_kb} fill_policy: DISCARD }}\n" + text)
        started, ready = os.pipe()
        argv = (lib.MMTRACE, "record", "--no-verdict", "--notify-fd", ready, "-c", path, "-o",
                trace)
        with lib.Popen([str(a) for a in argv], stderr=subprocess.PIPE, text=True,
                       pass_fds=[ready]) as child:
            os.close(ready)
            with open(started, "rb") as pipe:
                pipe.read(1)  # all sources have started
            trace_marker("B|1|outer\n", "C|1|level|5\n", "S|1|async|7\n", "I|1|moment\n", "E|1\n",
                         "F|1|async|7\n")
            subprocess.run([sys.executable, "-c", LOAD], check=True)
            states.wait_for_turns(child.pid, 1)
            child.send_signal(signal.SIGINT)
            said = child.stderr.read()
        self.assertEqual(child.returncode, 0, said)
        return trace

    def compare(self, text, *filled, losses=(), size_kb=32768):
        """Records, and compares all tables; the tables in `filled` must have rows, or there is
        little to compare."""
        name = self.id().rpartition(".")[2].removeprefix("test_")
        self.assertEqual(one_truth.Comparison().compare(name, self.record(text, size_kb), self.dir,
                                                        filled=filled, losses=losses), [])

    @lib.needs_root
    @lib.needs_tracefs
    def test_scheduling(self):
        self.compare(ftrace(*SCHED) + PROCESSES, "sched_slice", "thread_state", "process", "thread")

    @lib.needs_root
    @lib.needs_tracefs
    def test_compact_scheduling(self):
        self.compare(ftrace(*SCHED, more="compact_sched { enabled: true }") + PROCESSES,
                     "sched_slice", "thread_state")

    @lib.needs_root
    @lib.needs_tracefs
    def test_memory_events(self):
        self.compare((lib.ROOT / "configs"
                      / "mm_events.cfg").read_text().partition("buffers {")[0].partition(
                          "unique_session_name")[0]
                     + ftrace("vmscan/*", "compaction/*", "oom/*", "kmem/rss_stat", "ftrace/print",
                              "kmem/mm_page_alloc", "kmem/mm_page_free") + PROCESSES,
                     "ftrace_event", "counter")

    @lib.needs_root
    @lib.needs_tracefs
    def test_many_kinds_of_events(self):
        # The buffer limits the number of events to compare, however busy the machine is. It also
        # loses some events.
        self.compare(ftrace("raw_syscalls/*", "irq/*", "workqueue/*", "signal/*", "power/*",
                            "block/*", "cgroup/*",
                            "ext4/ext4_sync_file_enter", "ext4/ext4_sync_file_exit", "writeback/*",
                            "net/*", "sock/*",
                            "tcp/*", "cpuhp/*", "ftrace/print", "sched/*", "task/*"),
                     "ftrace_event", "slice", "thread_state", losses=LOSSES, size_kb=1024)

    @lib.needs_root
    @lib.needs_tracefs
    def test_texts_with_a_nul(self):
        """The addresses of tcp_probe have bytes of zero."""
        self.compare(ftrace("tcp/*", "sock/*"), "ftrace_event", "args")

    def test_counters(self):
        self.compare("""
data_sources { config { name: "linux.sys_stats" sys_stats_config {
  vmstat_period_ms: 100 meminfo_period_ms: 100 psi_period_ms: 100 buddyinfo_period_ms: 100
    stat_period_ms: 100
  diskstat_period_ms: 100 cpufreq_period_ms: 100 cpuidle_period_ms: 100 thermal_period_ms: 100
    devfreq_period_ms: 100
  slab_period_ms: 500 } } }
data_sources { config { name: "linux.system_info" system_info_config { irq_names: true } } }
""" + PROCESSES, "counter", "cpu", "process")

    def test_process_memory(self):
        self.compare("""
data_sources { config { name: "linux.process_stats" process_stats_config {
  scan_all_processes_on_start: true proc_stats_poll_ms: 100 scan_smaps_rollup: true
    record_process_runtime: true
  record_process_dmabuf_rss: true resolve_process_fds: true } } }
""", "process_counter_track", "counter")

    def test_residency(self):
        self.compare("""
data_sources { config { name: "linux.page_residency" page_residency_config {
  paths: "/usr/bin" period_ms: 200 max_files: 50 min_file_size_bytes: 65536 } } }
""", "counter_track", "counter")


if __name__ == "__main__":
    unittest.main()
