# SPDX-License-Identifier: Apache-2.0
"""The shipped config in a storm of reclaim: the trace has counters, kills, names and both ends of
the flood, and counts the loss.

In a storm, processes in a memory cgroup read a sparse file that is much larger than the group. Each
half megabyte is a reclaim, with an event at its start and one at its end.
"""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import lib
from test_daemon import Daemon

GIB = 1 << 30
MIB = 1 << 20
VMSTAT_MS = 500
N_READERS = 2
PIECE = 4 * MIB
# Reads FILE again and again: a piece every PERIOD_S, or as fast as the machine lets it.
READER = """
import os, sys, time
fd, period, piece = os.open(sys.argv[1], os.O_RDONLY), float(sys.argv[2]), int(sys.argv[3])
buffer, end, due = bytearray(piece), os.fstat(fd).st_size, time.monotonic()
while True:
    for at in range(0, end, piece):
        os.preadv(fd, [buffer], at)
        due += period
        time.sleep(max(0, due - time.monotonic()))
"""


# Programs that end before the recorder can look up their names.
BRIEF = 'while :; do head -c 16777216 "$0" > /dev/null; done'

# A program that needs more memory than it gets.
GREEDY = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1G", "count=1"]

# The events of the ring of events. Other rings have the kills and the ends of the tasks.
FLOOD = "SELECT ts FROM ftrace_event WHERE name NOT IN ('mark_victim', 'sched_process_free')"


@contextlib.contextmanager
def memory_group(limit):
    """Yields a function that moves the calling process into a memory cgroup, with a priority that
    helps on a busy machine."""
    with lib.memory_cgroup(limit) as join:
        def enter():
            join()
            os.nice(-5)
        yield enter


@contextlib.contextmanager
def storm(folder, period_s=0.0):
    """Runs readers in a memory cgroup until the end of the block. Yields their pids. The readers
    themselves need half of the group's memory."""
    path = pathlib.Path(folder) / "sparse"
    with open(path, "wb") as file:
        file.truncate(8 * GIB)
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context(memory_group(48 * MIB))
        readers = []
        for _ in range(N_READERS):
            reader = subprocess.Popen([sys.executable, "-c", READER, str(path), str(period_s),
                                       str(PIECE)],
                                      preexec_fn=enter)
            stack.callback(reader.wait)
            stack.callback(reader.kill)
            readers.append(reader.pid)
        shell = subprocess.Popen(["sh", "-c", BRIEF, path], preexec_fn=enter,
                                 start_new_session=True)
        stack.callback(shell.wait)
        stack.callback(os.killpg, shell.pid, signal.SIGKILL)
        yield readers


def run_out_of_memory():
    """Runs a program that the kernel kills for want of memory. Returns its pid and exit code. The
    program has a group of its own: until its memory is free, the kernel may kill others of the
    group."""
    with memory_group(8 * MIB) as enter:
        victim = subprocess.Popen(GREEDY, preexec_fn=enter, stderr=subprocess.DEVNULL)
        return victim.pid, victim.wait(60)


def config(events_kb, stop_delay_ms):
    text = (lib.ROOT / "configs" / "mm_events.cfg").read_text()
    text = text.replace("size_kb: 4096", f"size_kb: {events_kb}")
    return text.replace("stop_delay_ms: 360000", f"stop_delay_ms: {stop_delay_ms}")


class Capture:
    """The recording of one storm, from the trigger to the end of the session."""

    def __init__(self, folder, events_kb, stop_delay_ms, period_s=0.0):
        self.folder = pathlib.Path(folder)
        self.stop_delay_ms = stop_delay_ms
        sockets = {f"PERFETTO_{kind}_SOCK_NAME": str(self.folder / kind)
                   for kind in ("CONSUMER", "PRODUCER")}
        self.env = {**os.environ, **sockets}
        (self.folder / "armed").mkdir()
        (self.folder / "armed" / "mm_events.cfg").write_text(config(events_kb, stop_delay_ms))
        # The daemon runs in its own session, as init starts it: the session has the daemon's
        # priority, too.
        self.daemon = Daemon(self.folder, env=sockets, ipc=True, session=True)
        try:
            self.daemon.wait(lambda: "mm_events.cfg: armed" in self.daemon.said())
            with storm(self.folder, period_s) as self.readers:
                self.record()
        finally:
            self.daemon.end(signal.SIGKILL)
        self.db = self.folder / "trace.db"
        done = lib.run(lib.MMSQL, "convert", self.trace, "-o", self.db)
        assert done.returncode == 0, done.stderr

    def look(self):
        done = lib.run(lib.MMTRACE, "status", env=self.env)
        if " triggered " in done.stdout:
            self.status = done.stdout

    def record(self):
        lib.run(lib.MMTRACE, "trigger", "kmem_activity", env=self.env)
        self.status = None
        time.sleep(self.stop_delay_ms / 2000)
        self.look()
        self.victim = run_out_of_memory()
        while not self.daemon.files():
            self.look()
            self.daemon.wait(lambda: True)
            time.sleep(0.2)
        self.trace = self.daemon.files()[0]
        self.wrote = self.daemon.wait(lambda: re.search(r"wrote .*", self.daemon.said()))[0]

    def query(self, sql):
        done = lib.run(lib.MMSQL, "query", "--csv", self.db, sql)
        assert done.returncode == 0, done.stderr
        return [line.split(",") for line in done.stdout.splitlines()[1:]]

    def number(self, sql):
        return int(self.query(sql)[0][0])


class Checks:
    """The promises for a trace whose buffer was too small for the flood."""

    def gap(self):
        """The longest time without an event, in ns."""
        return self.capture.number("SELECT max(d) FROM (SELECT ts - lag(ts) OVER (ORDER BY ts) AS d"
                                   f" FROM ({FLOOD}))")

    def lost(self):
        lost = re.search(r"without (\d+) events", self.capture.wrote)
        self.assertTrue(lost, f"the storm was too weak for the buffer: {self.capture.wrote}")
        return int(lost[1])

    def test_every_sample_of_the_counters_is_there(self):
        times = [int(row[0]) for row in self.capture.query(
            "SELECT DISTINCT c.ts FROM counter c JOIN counter_track t ON t.id = c.track_id "
            "WHERE t.type = 'vmstat' ORDER BY 1")]
        self.assertGreaterEqual(len(times), self.capture.stop_delay_ms // VMSTAT_MS)
        gaps = [(b - a) / 1e6 for a, b in zip(times, times[1:])]
        self.assertLess(max(gaps), 2 * VMSTAT_MS)

    def test_both_ends_of_the_flood_are_there(self):
        start, end = (int(self.capture.query(
            f"SELECT {what}(c.ts) FROM counter c JOIN counter_track t ON t.id = c.track_id "
            "WHERE t.type = 'vmstat'")[0][0])
            for what in ("min", "max"))
        first, last = (self.capture.number(f"SELECT {what}(ts) FROM ({FLOOD})")
                       for what in ("min", "max"))
        self.assertLess(abs(first - start) / 1e9, 1)
        self.assertGreater((last - end) / 1e9, -1)
        # The middle is missing: the gap is longer than any pause of the readers.
        gap = self.gap()
        self.assertGreater(gap / 1e6, self.capture.stop_delay_ms / 10)

    def test_the_kill_in_the_middle_is_there(self):
        pid, code = self.capture.victim
        self.assertEqual(code, -signal.SIGKILL)
        self.assertEqual(self.capture.number(
            "SELECT count(*) FROM ftrace_event e JOIN args a USING (arg_set_id) "
            f"WHERE e.name = 'mark_victim' AND a.key = 'pid' AND a.int_value = {pid}"), 1)

    def test_everybody_has_a_name(self):
        rows = self.capture.query("SELECT kind, upid, pid, process_name FROM reclaim_by_process")
        for row in rows:
            self.assertNotIn("", row[:3])
        self.assertEqual([row for row in rows if row[3] == ""], [])
        pids = {int(pid) for kind, _, pid, name in rows if kind == "memcg reclaim"
                and "python" in name}
        self.assertTrue(pids & set(self.capture.readers))  # a reader may be in neither end
        self.assertIn("head", {row[3] for row in rows})

    def test_the_loss_is_reported_everywhere(self):
        self.assertGreater(self.lost(), self.n_events_min // 4)
        columns, session = (re.split(r"  +", line)
                            for line in self.capture.status.splitlines()[-2:])
        self.assertGreater(int(session[columns.index("LOST")]), 0)
        losses = self.capture.query(
            "SELECT idx, severity, value FROM stats WHERE severity = 'data_loss' AND value > 0 "
            "AND name GLOB 'traced_buf*'")
        self.assertEqual([row[:2] for row in losses], [["2", "data_loss"]])

    def test_sums_say_who_lost_what(self):
        rows = self.capture.query(
            "SELECT coalesce(t.int_value, -1), n.int_value FROM slice s "
            "JOIN args n ON n.arg_set_id = s.arg_set_id AND n.key = 'debug.events' "
            "LEFT JOIN args t ON t.arg_set_id = s.arg_set_id AND t.key = 'debug.tid' "
            "WHERE s.name GLOB '* events not kept'")
        lost = {int(tid): int(n) for tid, n in rows}
        # The packets that the statistics and sums at the end of the trace push out come after the
        # sums: one or two.
        self.assertAlmostEqual(sum(lost.values()), self.lost(), delta=50 + self.lost() // 50)
        # A small buffer has one common sum for the tasks that lost less than others.
        self.assertGreater(max(lost.get(reader, 0) for reader in self.capture.readers), 100)

    def test_no_span_bridges_what_is_missing(self):
        longest = self.capture.number("SELECT max(dur) FROM slice WHERE name GLOB 'mm_vmscan_*'")
        gap = self.gap()
        self.assertLess(longest, gap / 2)

    def test_what_went_in_is_there_or_counted(self):
        kept = self.capture.number(f"SELECT count(*) FROM ({FLOOD})")
        self.assertGreater(kept, self.n_events_min // 4)
        self.assertGreater(kept + self.lost(), self.n_events_min)


@lib.needs_tracefs
class Storm(Checks, unittest.TestCase):
    n_events_min = 2000

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.capture = Capture(folder.name, events_kb=32, stop_delay_ms=10_000)


@lib.long_test
@lib.needs_tracefs
class SixMinutes(Checks, unittest.TestCase):
    """The config as it is shipped: a thousand reclaims a second, all the time."""
    n_events_min = 360_000

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.capture = Capture(folder.name, events_kb=4096, stop_delay_ms=360_000, period_s=0.016)


if __name__ == "__main__":
    unittest.main()
