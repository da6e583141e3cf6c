# SPDX-License-Identifier: Apache-2.0
"""mmsql memory: a profile beside the memory of the process."""
import contextlib
import os
import re
import signal
import sqlite3
import time
import unittest

import states
from lib import MMSQL, MMTRACE, ROOT, run
from test_heap_service import Service

MIB = 1 << 20
# 40 MiB in small pieces before the profile, 24 MiB in it, a thread with an arena, a mapped file.
PROGRAM = """
import mmap, sys, threading, time
before = [bytes(4000) for _ in range(40 * 2**20 // 4000)]
print("ready", flush=True)
sys.stdin.readline()
kept = []
kept_there = threading.Event()
thread = threading.Thread(target=lambda: (
    kept.append([bytes(3000) for _ in range(8 * 2**20 // 3000)]), kept_there.set(),
    time.sleep(600)))
thread.start()
kept_there.wait()
kept.append([bytes(4000) for _ in range(16 * 2**20 // 4000)])
print("done", flush=True)
time.sleep(600)
"""


class Memory(Service):
    def test_a_process_that_is_profiled_late(self):
        target = self.start_piped("python3", "-c", PROGRAM)
        self.assertEqual(target.stdout.readline(), "ready\n")
        recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-p", target.pid)
        self.until_said(recorder, "attached")
        target.stdin.write("\n")
        target.stdin.flush()
        self.assertEqual(target.stdout.readline(), "done\n")
        self.end(recorder)
        rows = {(layer, part): size for layer, part, size in self.query(
            f"select layer, part, bytes from memory_account where pid = {target.pid}")}
        self.assertAlmostEqual(rows["profile", "libc.malloc"], 24 * MIB, delta=3 * MIB)
        parts = ("heap", "malloc arenas", "anonymous")
        private = sum(rows["process", part] for part in parts)
        self.assertGreater(private, 64 * MIB)
        self.assertGreater(rows["process", "malloc arenas"], 7 * MIB)
        self.assertGreater(rows["process", "stacks"], 0)
        self.assertGreater(rows["process", "files"], MIB)
        with open(f"/proc/{target.pid}/status", encoding="ascii") as status:
            resident = int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) * 1024
        # the profiler has freed this memory since
        without = rows["process", "resident"] - rows["process", "profiler"]
        self.assertAlmostEqual(without, resident, delta=resident * 0.05)
        swap = rows.get(("process", "swap"), 0)
        missing = sum(size for (layer, _), size in rows.items() if layer == "difference")
        self.assertAlmostEqual(missing, private + swap - rows["profile", "libc.malloc"],
                               delta=max(swap, 1) + MIB)
        done = run(MMSQL, "memory", "--pid", target.pid, self.trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        for text in (f"({target.pid})", "What the profile has seen", "malloc arenas",
                     "The difference"):
            self.assertIn(text, done.stdout)
        self.assertLess(max(map(len, done.stdout.splitlines())), 110)

    @staticmethod
    def go_on(pid):
        with contextlib.suppress(ProcessLookupError):  # the recorder has ended the helper
            os.kill(pid, signal.SIGCONT)

    def stop(self, pid):
        """Stops a process. Returns False if the process has ended, as the helper of an attach."""
        try:
            os.kill(pid, signal.SIGSTOP)
            self.addCleanup(self.go_on, pid)
            states.wait_for_state(pid, "T")
        except ProcessLookupError:
            return False
        except AssertionError:
            if states.proc_text(pid, "stat").rpartition(")")[2].split()[:1] in ([], ["Z"], ["X"]):
                return False
            raise
        return True

    def test_names_that_come_late(self):
        """The recorder reads the mappings at the dump, not seconds later, when the names are
        known."""
        target = self.start_piped("python3", "-c", PROGRAM)
        self.assertEqual(target.stdout.readline(), "ready\n")
        recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-p", target.pid)
        self.until_said(recorder, "attached")
        children = states.proc_text(recorder.pid, f"task/{recorder.pid}/children").split()
        helpers = [child for child in map(int, children) if self.stop(child)]
        self.assertTrue(helpers)
        target.stdin.write("\n")
        target.stdin.flush()
        self.assertEqual(target.stdout.readline(), "done\n")
        recorder.send_signal(signal.SIGINT)
        states.wait_for_taken(recorder.pid, signal.SIGINT)
        time.sleep(5.5)  # more than memory_account allows between dump and mappings
        for helper in helpers:
            self.go_on(helper)
        recorder.communicate(timeout=60)
        self.assertIn(("process",),
                      self.query(
                          f"select distinct layer from memory_account where pid = {target.pid}"))

    def test_the_parts_add_up(self):
        """The numbers are known: the profile has 65,536 bytes at its first dump, 45,056 at its
        second."""
        for ns in (1000, -10_000_000):  # a dump has the time of a coarse clock
            with self.subTest(ns=ns):
                self.check_parts(ns)

    def check_parts(self, ns):
        """The mappings are read `ns` after the time of the dump."""
        db = self.dir / f"known{ns}.db"
        run(MMSQL, "convert", "-q", ROOT / "tests" / "golden" / "heap_continuous.pftrace", "-o", db)
        with contextlib.closing(sqlite3.connect(db)) as handle, handle:
            (upid, ts), = handle.execute(
                f"select upid, max(ts) + {ns} from heap_profile_allocation group by upid")
            handle.executemany(
                "insert into profiler_smaps(upid, ts, path, size_kb, rss_kb, swap_kb)"
                f" values ({upid}, {ts}, ?, 1000, ?, ?)",
                [("[heap]", 200, 50), ("[anon:malloc arena]", 30, 0), ("[anon]", 70, 0),
                 ("[anon:thread stack]", 8, 0),
                 ("[stack]", 4, 0), ("/usr/lib/libc.so.6", 90, 0), ("/dev/shm/x", 5, 2),
                 ("[anon:libmmheap.so]", 3, 0),
                 ("[vdso]", 1, 0)])
            handle.execute(
                "insert into _malloc_arena(upid, ts, arena, system_bytes, free_bytes, fast_bytes)"
                f" values ({upid}, {ts} - {ns} + 500, 0, 240000, 100000, 40000),"
                f" ({upid}, {ts} - {ns} + 500, NULL, 60000, 0, 0)")
        with contextlib.closing(sqlite3.connect(db)) as handle:
            rows = handle.execute("select layer, part, bytes from memory_account").fetchall()
            with handle:
                handle.execute("delete from _malloc_arena")
            without = dict(
                handle.execute("select part, bytes from memory_account where layer = 'difference'"))
        private = (200 + 50 + 30 + 70) * 1024
        self.assertEqual(rows, [
            ("profile", "libc.malloc", 45056),
            ("allocator", "in use", 160000), ("allocator", "free", 140000),
            ("allocator", "held", 300000),
            ("process", "heap", 200 * 1024), ("process", "malloc arenas", 30 * 1024),
            ("process", "anonymous", 70 * 1024),
            ("process", "stacks", 12 * 1024), ("process", "files", 90 * 1024),
            ("process", "shared memory", 5 * 1024),
            ("process", "profiler", 3 * 1024), ("process", "others", 1024),
            ("process", "resident", 411 * 1024),
            ("process", "swap", 52 * 1024),
            ("difference", "not profiled", 160000 - 45056), ("difference", "fragmentation", 140000),
            ("difference", "other mappings", private - 300000)])
        self.assertEqual(without, {"not in the profile": private - 45056})

    def test_what_is_not_there(self):
        target = self.start("sleep", "30")
        self.assertEqual(run(MMTRACE, "heap", "-q", "-o", self.trace, "-d", "300", "-p",
                             target.pid).returncode, 0)
        self.assertNotIn("not known", run(MMSQL, "memory", self.trace).stdout)
        run(MMTRACE, "heap", "-q", "-i", "1", "-o", self.dir / "ended", "--", "sleep", "0.1")
        self.assertIn("the trace has no reading of the process's memory",
                      run(MMSQL, "memory", self.dir / "ended").stdout)
        for argv, code, text in ((["--pid", "1", self.trace], 1, "no heap profile that matches"),
                                 (["--pid", "x", self.trace], 2, "not a number"),
                                 ([], 2, "one database")):
            done = run(MMSQL, "memory", *argv)
            self.assertEqual((done.returncode, text in done.stderr), (code, True), done.stderr)


if __name__ == "__main__":
    unittest.main()
