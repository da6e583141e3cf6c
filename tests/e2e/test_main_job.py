# SPDX-License-Identifier: Apache-2.0
"""The main job, end to end: real memory pressure, recorded with the sources of
configs/mm_events.cfg, read by protoc, converted, and queried. The test compares the trace with the
kernel's own counters.
"""
import collections
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

import lib
from test_residency import Reader, WatchedFile

sys.path.insert(0, str(lib.ROOT / "scripts"))
import load  # noqa: E402

LIMIT_S = 300  # the test ends the recording earlier
VMSTAT_PERIOD_MS = 500
EVENTS = ("mm_vmscan_kswapd_wake", "mm_vmscan_direct_reclaim_begin", "mm_vmscan_direct_reclaim_end",
          "mm_compaction_begin", "mm_compaction_end")
RESIDENCY = """
data_sources { config { name: "linux.page_residency" target_buffer: 1
    page_residency_config { paths: "%s" period_ms: 100 detail: DETAIL_RANGES } } }
data_sources { config { name: "linux.process_stats" target_buffer: 1
    process_stats_config { scan_all_processes_on_start: true record_thread_names: true } } }
buffers { size_kb: 4096 fill_policy: RING_BUFFER }
"""


def vmstat():
    return {name: int(value) for name, value in
            (line.split() for line in pathlib.Path("/proc/vmstat").read_text().splitlines())}


def since(before):
    return {name: value - before.get(name, 0) for name, value in vmstat().items()}


@lib.needs_root
class MainJob(unittest.TestCase):
    """One recording for several tests."""

    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory(dir="/var/tmp")  # not a tmpfs: its pages stay
        cls.addClassCleanup(cls.tmp.cleanup)
        out = pathlib.Path(cls.tmp.name)
        cls.watched = WatchedFile(out / "halves", 256)
        cls.addClassCleanup(cls.watched.close)
        cls.states = []
        cls.record(out)
        cls.packets = lib.decode(out / "trace.pftrace")
        done = lib.run(lib.MMSQL, "convert", out / "trace.pftrace", "-o", out / "trace.db")
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        cls.db = sqlite3.connect(out / "trace.db")
        cls.addClassCleanup(cls.db.close)

    @classmethod
    def record(cls, out):
        config = out / "config.cfg"
        text = (lib.ROOT / "configs" / "mm_events.cfg").read_text()
        # The buffer has room for every event, also on a busy machine: the test counts the events.
        text = text.replace("size_kb: 512\n", "size_kb: 16384\n")
        # Exits are read for names in any case. The kernel counts them, so they are recorded, too.
        text = text.replace("ftrace_config {",
                            'ftrace_config { ftrace_events: "sched/sched_process_exit"', 1)
        config.write_text(text + RESIDENCY % (out / "halves"))
        argv = [lib.MMTRACE, "record", "-q", "-c", config, "-t", f"{LIMIT_S}s", "-o",
                out / "trace.pftrace"]
        before = vmstat()
        # The readers of pressure() are in another session: the recorder's has its priority.
        recorder = subprocess.Popen([str(arg) for arg in argv], stderr=subprocess.PIPE, text=True,
                                    start_new_session=True)
        cls.recorder_pid = recorder.pid
        try:
            cls.wait_recording(recorder)
            cls.reclaimers = load.pressure(out)
            load.compact()
            cls.evict_half_by_half()
            recorder.send_signal(signal.SIGINT)
            _, errors = recorder.communicate(timeout=60)
        finally:
            recorder.kill()
            recorder.wait()
        cls.counted = since(before)
        if recorder.returncode != 0:
            raise AssertionError(errors)

    @classmethod
    def wait_recording(cls, recorder):
        """Waits until the recorder's tracefs instance is switched on and has mmtrace's clock. The
        recorder sets it up last."""
        end = time.monotonic() + 60
        while time.monotonic() < end and recorder.poll() is None:
            for path in (lib.TRACEFS / "instances").glob(f"mmtrace-{recorder.pid}-*"):
                if (lib.tracefs_text(path, "tracing_on") == "1\n"
                        and "[boot]" in lib.tracefs_text(path, "trace_clock")
                        and lib.tracefs_text(path,
                                             "events/vmscan/mm_vmscan_direct_reclaim_begin/enable")
                    == "1\n"):
                    time.sleep(1)
                    return
            time.sleep(0.05)
        raise AssertionError("the recorder does not record")

    @classmethod
    def evict_half_by_half(cls):
        """Keeps the whole file, then half of it, half of the rest, ... and notes the answer of
        mincore() each time."""
        watched, left = cls.watched, cls.watched.pages
        watched.bring_in(0, left)
        while left:
            begin, bits = time.clock_gettime_ns(time.CLOCK_BOOTTIME), watched.mincore()
            time.sleep(0.4)
            end = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            cls.states.append((begin, end, bits if watched.mincore() == bits else None))
            watched.evict(left // 2, left - left // 2)
            left //= 2

    def events(self):
        names = collections.Counter()
        for bundle in lib.of_kind(self.packets, "ftrace_events"):
            for event in bundle.all("ftrace_events", "event"):
                names.update(name for name in EVENTS if name in event)
        return names

    def test_events_of_reclaim_and_compaction(self):
        names = self.events()
        for name in EVENTS:
            self.assertGreater(names[name], 0, f"{name}: {names}")
        self.assertEqual(names["mm_vmscan_direct_reclaim_begin"],
                         names["mm_vmscan_direct_reclaim_end"])

    def test_as_many_as_the_kernel_counted(self):
        stalls = sum(value for name, value in self.counted.items()
                     if name.startswith("allocstall_"))
        self.assertGreater(stalls, 0)
        # The kernel's counters were read a moment before and after the recording, and count a
        # reclaim that is tried again once more: they are a bound.
        self.assertLessEqual(self.events()["mm_vmscan_direct_reclaim_begin"], stalls)

    def test_every_event_of_the_kernel_buffers_is_there(self):
        n_events = sum(len(bundle.all("ftrace_events", "event"))
                       for bundle in lib.of_kind(self.packets, "ftrace_events"))
        ends = [stats for stats in lib.of_kind(self.packets, "ftrace_stats")
                if stats.one("ftrace_stats", "phase") == "END_OF_TRACE"]
        self.assertEqual(len(ends), 2)  # of the events of reclaim, and of the kills
        cpus = [cpu for end in ends for cpu in end.all("ftrace_stats", "cpu_stats")]
        self.assertEqual(n_events, sum(cpu.one("read_events") for cpu in cpus))
        for name in ("entries", "overrun", "dropped_events"):
            self.assertEqual([cpu.one(name) for cpu in cpus], [0] * len(cpus), name)

    def test_sql_has_what_protoc_has(self):
        counts = dict(self.db.execute("SELECT name, count(*) FROM ftrace_event GROUP BY name"))
        self.assertEqual({name: counts.get(name, 0) for name in EVENTS}, dict(self.events()))
        slices = dict(self.db.execute("SELECT name, count(*) FROM slice GROUP BY name"))
        self.assertEqual(slices.get("mm_vmscan_direct_reclaim"),
                         counts["mm_vmscan_direct_reclaim_end"])

    def test_processes_that_reclaimed(self):
        names = self.db.execute(
            "SELECT DISTINCT thread.name, process.name FROM ftrace_event JOIN thread USING (utid) "
            "JOIN process USING (upid) WHERE ftrace_event.name = 'mm_vmscan_direct_reclaim_begin' "
            f"AND tid IN ({','.join(map(str, self.reclaimers))})").fetchall()
        own = pathlib.Path("/proc/self")
        argv0 = (own / "cmdline").read_bytes().split(b"\0")[0].decode()
        self.assertEqual(names, [((own / "comm").read_text().strip(), argv0)])

    def test_vmstat_at_its_period(self):
        times = [row[0] for row in self.db.execute(
            "SELECT c.ts FROM counter c JOIN counter_track t ON c.track_id = t.id "
            "WHERE t.type = 'vmstat' AND t.name = 'nr_free_pages' ORDER BY c.ts")]
        self.assertGreater(len(times), 8)
        # A busy machine may be late for a sample or miss it; none comes twice or early.
        n_periods = (times[-1] - times[0]) / 1e6 / VMSTAT_PERIOD_MS
        self.assertLessEqual(len(times) - 1, n_periods + 1)
        self.assertGreaterEqual(len(times) - 1, n_periods * 0.7)
        for i, time_ns in enumerate(times):
            self.assertGreaterEqual((time_ns - times[0]) / 1e6, i * VMSTAT_PERIOD_MS - 100)

    def test_vmstat_counts_what_the_kernel_counted(self):
        for name in ("pgsteal_kswapd", "pgsteal_direct", "compact_migrate_scanned"):
            low, high = self.db.execute(
                "SELECT min(c.value), max(c.value) FROM counter c JOIN counter_track t ON "
                "c.track_id = t.id WHERE t.name = ?", (name,)).fetchone()
            self.assertGreater(high - low, 0, name)
            self.assertLessEqual(high - low, self.counted[name], name)

    def check_states(self, state_at, rounds):
        """Compares each state of the file that did not change during a round of the recorder."""
        self.assertEqual(len(self.states), 9)  # 256 pages, and halved until one is left
        n_compared = 0
        for begin, end, bits in self.states:
            if bits is not None and any(begin <= start and stop <= end for start, stop in rounds):
                n_compared += 1
                self.assertEqual(state_at(end), bits, f"{sum(bits)} of {len(bits)} pages")
        self.assertGreater(n_compared, 4)

    def test_residency_in_the_trace(self):
        reader = Reader(self.packets)
        states = reader.states[str(self.watched.path)]

        def state_at(when):
            return [pages for timestamp, pages, _ in states if timestamp <= when][-1]
        self.check_states(state_at, reader.rounds)

    def test_residency_in_sql(self):
        def state_at(when):
            bits = bytearray(self.watched.pages)
            for start, end in self.db.execute(
                    "SELECT r.start_page, r.end_page FROM page_residency_range r "
                    "WHERE r.sample_id = ("
                    "SELECT s.id FROM page_residency_sample s JOIN page_residency_file f ON "
                    "s.file_id = f.id WHERE f.path = ? AND s.ts + s.dur <= ? ORDER BY s.ts DESC "
                    "LIMIT 1)",
                    (str(self.watched.path), when)):
                bits[start:end] = b"\1" * (end - start)
            return bytes(bits)
        self.check_states(
            state_at, self.db.execute("SELECT ts, ts + dur FROM page_residency_round").fetchall())

    def test_nothing_is_left_behind(self):
        left = [path.name for path in (lib.TRACEFS / "instances").iterdir()
                if path.name.startswith(f"mmtrace-{self.recorder_pid}-")]
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main()
