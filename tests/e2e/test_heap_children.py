# SPDX-License-Identifier: Apache-2.0
"""Children after fork: a worker that executes no other program has a profile of its own."""
import pathlib
import platform
import re
import socket
import subprocess
import sys
import unittest

import states
from test_heap import MMTRACE, Heap

MB = 1_000_000
# Workers keep 2, 4, 6 MB. Each worker forks again: its child keeps 1 MB.
WORKERS = """
import os, sys
kept = [b"x" * 5000 for _ in range(100)]
workers = []
sys.stdin.read(1)
for i in (1, 2, 3):
    pid = os.fork()
    if pid == 0:
        more = [bytes(10000) for _ in range(200 * i)]
        if os.fork() == 0:
            last = [bytes(10000) for _ in range(100)]
            os._exit(0)
        os.wait()
        os._exit(0)
    workers.append(pid)
for pid in workers:
    os.waitpid(pid, 0)
print(*workers)
"""
THREAD = """
import os, threading
over = threading.Event()
thread = threading.Thread(target=over.wait)
thread.start()
if os.fork() == 0:
    more = [bytes(10000) for _ in range(500)]
    os._exit(0)
os.wait()
over.set()
thread.join()
"""
# A process that is not profiled forks, and its child asks.
ASKS = """
import os, socket
if os.fork() == 0:
    asks = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asks.settimeout(60)
    asks.connect("%s")
    print(asks.recv(1), flush=True)
    os._exit(0)
os.wait()
"""


class Children(Heap):
    """Checks of the profiles in a trace."""

    def sizes(self):
        """{pid: bytes that the process has not freed}"""
        return dict(self.query(
            "SELECT pid, sum(size) FROM heap_profile_allocation JOIN process USING (upid) "
            "GROUP BY pid"))

    def check_workers(self, workers):
        """Each worker has a profile with its own bytes, and so has each worker's child."""
        sizes = self.sizes()
        for i, pid in enumerate(workers, 1):
            self.assertAlmostEqual(sizes[pid] / MB, 2 * i, delta=0.4 + 0.2 * i)
        others = sorted(size / MB for pid, size in sizes.items() if pid not in workers)[-3:]
        for size in others:
            self.assertAlmostEqual(size, 1, delta=0.4)


class OfPrepared(Children):
    def test_workers_of_a_program(self):
        done = self.profile(sys.executable, "-c", WORKERS, input="x")
        workers = [int(pid) for pid in done.stdout.split()]
        self.assertEqual(len(workers), 3)
        self.check_workers(workers)
        self.assertNotIn("not profiled", done.stderr)

    def test_no_children(self):
        done = self.profile(sys.executable, "-c", WORKERS, input="x", options=("--no-children",))
        self.assertLess(sum(size for _, size in self.sizes().items()), 2 * MB)
        said = re.search(
            r"not profiled: (\d+) children after fork, .*: the config says no_children",
            done.stderr)
        self.assertEqual(said and said[1], "3")  # a child that is not profiled has no ring

    def test_children_of_a_program_with_threads_are_announced(self):
        done = self.profile(sys.executable, "-c", THREAD)
        self.assertRegex(done.stderr, r"not profiled: 1 children after fork, first a child of "
                                      r"process \d+: they are children of a program with threads")

    def test_the_profile_of_the_parent_is_undisturbed(self):
        code = ("import os\nkeep = [b'x' * 5000 for _ in range(1000)]\n"
                "for _ in range(20):\n"
                "    if os.fork() == 0:\n"
                "        keep = None; more = [bytes(100000) for _ in range(50)]; os._exit(0)\n"
                "    os.wait()\n"
                "print(os.getpid(), flush=True)\n"
                "os._exit(0)\n")  # a normal end of the interpreter would free everything
        done = self.profile(sys.executable, "-c", code)
        sizes = self.sizes()
        of_parent = sizes.pop(int(done.stdout)) / MB  # 5, and what the interpreter needs
        self.assertTrue(4.5 < of_parent < 10, of_parent)
        self.assertEqual(len([size for size in sizes.values() if size > 4 * MB]), 20)


@unittest.skipUnless(platform.machine() == "x86_64", "only x86-64 programs are attached to")
class OfRunning(Children):
    """The parent was not prepared, and runs before the recording begins."""

    def start(self, *argv):
        process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for file in (process.stderr, process.stdout, process.stdin):
            self.addCleanup(file.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_others_get_no_profile_at_the_socket_of_the_children(self):
        """A process that is not a child of a profiled process gets no profile, whatever its command
        line."""
        process = self.start(sys.executable, "-c", WORKERS)
        states.wait_for_state(process.pid, "S")
        recorder = self.start(MMTRACE, "heap", "-p", process.pid, "-o", self.trace)
        self.until_said(recorder, f"process {process.pid}: attached")
        name = re.search(rf"@(mmtrace-heap-{recorder.pid}-\w+)$",
                         pathlib.Path("/proc/net/unix").read_text(), re.M)[1]
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asks:
            asks.settimeout(60)
            asks.connect("\0" + name)
            self.assertEqual(asks.recv(1), b"")
        again = subprocess.run([sys.executable, "-c", ASKS % ("\\0" + name)], capture_output=True,
                               text=True, timeout=60, check=False)
        self.assertEqual((again.returncode, again.stdout), (0, "b''\n"), again.stderr)
        process.communicate("x", timeout=60)
        self.assertEqual(recorder.wait(60), 0)

    def test_workers_of_a_running_program(self):
        process = self.start(sys.executable, "-c", WORKERS)
        states.wait_for_state(process.pid, "S")
        recorder = self.start(MMTRACE, "heap", "-p", process.pid, "-o", self.trace)
        self.until_said(recorder, f"process {process.pid}: attached")
        process.stdin.write("x")
        process.stdin.close()
        workers = [int(pid) for pid in process.stdout.read().split()]
        self.assertEqual(process.wait(60), 0, process.stderr.read())
        self.assertEqual(recorder.wait(60), 0, recorder.stderr.read())
        self.check_workers(workers)


del Heap

if __name__ == "__main__":
    unittest.main()
