# SPDX-License-Identifier: Apache-2.0
"""A stranger's process that never releases the lock of its memory map, and its child that never
releases its lock of execve (docs/threat-model.md).

A reader of cmdline, maps or smaps of the process, or of stat of the child, waits for ever: ps does.
"""
import os
import pathlib
import subprocess
import sys
import unittest

import lib
import states
import strangers
from strangers_daemon import Daemon, SERVED_S

PERIOD_MS = 100
DURATION_MS = 2000
CONFIG = f"""
buffers {{ size_kb: 4096 }}
duration_ms: {DURATION_MS}
data_sources {{ config {{ name: "linux.sys_stats"
  sys_stats_config {{ vmstat_period_ms: {PERIOD_MS} vmstat_counters: VMSTAT_NR_FREE_PAGES }} }} }}
data_sources {{ config {{ name: "SOURCE" }} }}
"""
SOURCES = {
    "linux.process_stats": "process_stats_config { scan_all_processes_on_start: true "
                           f"proc_stats_poll_ms: {PERIOD_MS} scan_smaps_rollup: true }}",
    "linux.perf": 'perf_event_config { timebase { frequency: 10 } callstack_sampling { scope { '
                  'target_cmdline: "nobody" } } }',
    "linux.perf_map": 'perf_map_config { process_cmdlines: "nobody" }',
    "linux.page_residency": 'page_residency_config { process_cmdlines: "nobody" period_ms: 100 }',
    "linux.heap": 'heapprofd_config { process_cmdline: "nobody" sampling_interval_bytes: 4096 }',
}


@lib.needs_root
class MemoryMaps(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self).ready()
        folder = pathlib.Path(self.daemon.root)
        device, mount_on = strangers.fuse_device(folder), folder / "mounted"
        mount_on.touch()
        mount_on.chmod(0o666)
        stranger = strangers.Stranger(strangers.hold_memory_map, device, mount_on)
        self.addCleanup(stranger.end)
        self.pid = stranger.hear()
        try:
            lib.wait_for(lambda: self.holds(self.pid, "cmdline"), "a reader waits", 20)
            child = lib.wait_for(self.child, "the child")
            lib.wait_for(lambda: self.holds(child, "stat"), "a reader waits", 20)
        except AssertionError:
            self.skipTest("this kernel lets everybody read all files of the process")

    def child(self):
        """The child that executes a program. The server of the file system is a child, too."""
        children = [pid for pid in os.listdir("/proc") if pid.isdigit()
                    and f"\nPPid:\t{self.pid}\n" in states.proc_text(pid, "status")]
        return max(children, key=int) if len(children) > 1 else None

    def holds(self, pid, name):
        """Returns whether a reader of the file waits for a lock."""
        reader = subprocess.Popen(["cat", f"/proc/{pid}/{name}"], stdout=subprocess.DEVNULL)
        try:
            lib.wait_for(lambda: reader.poll() is not None
                         or states.proc_text(reader.pid, "stat").rpartition(")")[2].split()[0]
                         == "D", "the reader waits or ends")
            return reader.poll() is None
        finally:
            reader.kill()
            reader.wait()

    def record(self, source):
        config, trace = self.daemon.root / "config", self.daemon.root / "trace"
        config.write_text(CONFIG.replace('"SOURCE"', f'"{source}" {SOURCES[source]}'))
        done = lib.run(lib.MMTRACE, "record", "-c", config, "-o", trace, env=self.daemon.env,
                       timeout_s=DURATION_MS / 1000 + SERVED_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return trace

    def query(self, trace, sql):
        done = lib.run(lib.MMSQL, "query", "--csv", trace, sql)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()[1:]

    def test_each_source_goes_on(self):
        """Each source that looks for processes records beside the stranger, and delays no
        counters."""
        for source in SOURCES:
            with self.subTest(source):
                trace = self.record(source)
                n, gap_ms = self.query(trace, """
                    SELECT count(*), max(gap) / 1000000 FROM (
                        SELECT ts - lag(ts) OVER (ORDER BY ts) AS gap FROM counter
                        JOIN counter_track AS track ON track.id = track_id
                        WHERE track.name = 'nr_free_pages')""")[0].split(",")
                strangers.figure(self, f"{source}: {n} samples, longest gap {gap_ms} ms")
                self.assertGreater(int(n), DURATION_MS / PERIOD_MS / 4)
                self.daemon.status()

    def test_memory_of_a_process_that_has_ended(self):
        """The recorder does not keep the memory of a process because it cannot read another."""
        script = ("import mmap, os, time; fd = os.memfd_create('pinned');"
                  "os.ftruncate(fd, 1 << 20);"
                  "keep = mmap.mmap(fd, 1 << 20); os.close(fd); print('ready', flush=True);"
                  "time.sleep(60)")
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as owner:
            self.addCleanup(owner.kill)
            owner.stdout.readline()
            config = self.daemon.root / "config"
            config.write_text(
                "buffers { size_kb: 4096 } duration_ms: 30000 data_sources { config { "
                'name: "linux.page_residency" page_residency_config { period_ms: 100 '
                f"rescan_period_ms: 200 pids: {self.pid} pids: {owner.pid} }} }} }}")
            recorder = subprocess.Popen([lib.MMTRACE, "record", "-q", "-c", config, "-o",
                                         self.daemon.root / "trace"], env=self.daemon.env)
            self.addCleanup(recorder.wait)
            self.addCleanup(recorder.kill)
            lib.wait_for(self.is_pinned, "the recorder has the memory open")
            owner.kill()
        lib.wait_for(lambda: not self.is_pinned(), "the recorder has closed the memory", 20)

    def is_pinned(self):
        targets = states.open_files(self.daemon.process.pid)
        return any("memfd:pinned" in target for target in targets)

    def test_names_of_others(self):
        """The stranger has the name that its status gives; others have their command lines."""
        trace = self.record("linux.process_stats")
        daemon = self.daemon.process.pid
        shown = self.query(trace, "SELECT cmdline FROM process "
                           f"WHERE pid IN ({daemon}, {self.pid}) ORDER BY pid = {self.pid}")
        self.assertEqual(shown, [" ".join(self.daemon.argv),
                                 states.proc_text(self.pid, "comm").strip()])
