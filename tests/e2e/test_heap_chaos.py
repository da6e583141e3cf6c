# SPDX-License-Identifier: Apache-2.0
"""Heap profiles when things go wrong: recorders that stand still or are killed, processes in odd states. The programs
go on as if nothing was, and what is lost is known."""
import os
import pathlib
import random
import signal
import socket
import time
import unittest

from lib import MMTRACE, run
from test_heap import WORK as THREADS
from test_heap_service import Service

# Does what its lines of input say, and says when it is done.
WORK = """
import sys, time
keep = []
for line in sys.stdin:
    what, n = line.split()
    for i in range(int(n)):
        if what == "keep":
            keep.append(bytes(3000))
            if i % 10 == 0:
                time.sleep(0.01)
        elif what == "burst":
            keep.append(bytes(3000))
        elif keep:
            keep.pop()
    print("done", flush=True)
"""


class FullRing(Service):
    def work(self, process, what, n):
        process.stdin.write(f"{what} {n}\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "done\n")

    def profile(self, process, *options):
        recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-p", process.pid, *options)
        self.until(lambda: "attached" in recorder.stderr.readline())
        return recorder

    def end(self, recorder):
        recorder.send_signal(signal.SIGINT)
        err = recorder.communicate(timeout=30)[1]
        self.assertEqual(recorder.returncode, 0, err)
        return err

    def n_kept(self):
        """Live samples of the function that allocates most."""
        return self.query("select sum(count) from heap_profile_allocation group by callsite_id"
                          " order by sum(abs(count)) desc limit 1")[0][0]

    def stat(self, name):
        return sum(row[0] for row in self.query(f"select value from stats where name = '{name}'"))

    def test_frees_that_are_lost_are_made_good_for(self):
        """The program frees while nobody reads, and does nothing after that."""
        process = self.start_piped("python3", "-c", WORK)
        recorder = self.profile(process, "-i", "1", "--shmem-size", "65536", "--no-block-client")
        self.work(process, "keep", 600)
        time.sleep(0.2)
        recorder.send_signal(signal.SIGSTOP)
        self.work(process, "burst", 3000)
        self.work(process, "drop", 3500)
        recorder.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        self.end(recorder)
        self.assertGreater(self.stat("mmsql_heap_lost_frees"), 100)
        self.assertIn(self.n_kept(), range(50, 101))  # a busy machine loses some of the first samples


class Many(Service):
    def test_processes_that_have_ended_take_no_descriptors(self):
        script = "for i in $(seq 150); do sleep 0.005; done; echo as ever"
        result = run("prlimit", "--nofile=100", MMTRACE, "heap", "-o", self.trace, "-i", "1", "--", "sh", "-c", script)
        self.assertEqual((result.returncode, result.stdout), (0, "as ever\n"), result.stderr)
        self.assertNotIn("open files", result.stderr)
        (n,), = self.query("select count(distinct upid) from heap_profile_allocation")
        self.assertGreater(n, 150)


class Odd(Service):
    def attach(self, pid, ms=200):
        return run(MMTRACE, "heap", "-o", self.trace, "-d", ms, "-p", pid)

    def compile(self, text):
        source, program = self.dir / "odd.c", self.dir / "odd"
        source.write_text(text)
        done = run("cc", "-o", program, source, "-pthread")
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def test_a_recorder_that_was_killed_is_followed_by_another(self):
        """Of a process that sleeps, which has nobody to take its hooks out."""
        process = self.start("sleep", "60")
        for _ in range(2):
            recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-p", process.pid)
            self.until(lambda: "attached" in recorder.stderr.readline())
            recorder.kill()
            recorder.wait()
        result = self.attach(process.pid)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIsNone(process.poll())

    def test_helpers_that_are_killed_at_any_moment(self):
        """The thread that they had borrowed goes on, with its signals and its priority."""
        process = self.start("python3", "-c", THREADS, "6")
        time.sleep(0.3)
        for _ in range(10):
            recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-d", "50", "-p", process.pid)
            children = pathlib.Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children")
            self.until(lambda: recorder.poll() is not None or children.read_text())
            time.sleep(random.random() * 0.02)
            if recorder.poll() is None and (helpers := children.read_text().split()):
                os.kill(int(helpers[0]), signal.SIGKILL)
            recorder.communicate(timeout=30)
        time.sleep(0.1)  # the guard's
        for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
            self.assertIn("SigBlk:\t0000000000000000", (task / "status").read_text())
            self.assertEqual(os.sched_getscheduler(int(task.name)), os.SCHED_OTHER)
        self.assertEqual(process.wait(60), 0)

    def test_a_socket_that_nobody_answers_at(self):
        """Who is attached to does not ask there."""
        name = f"mmtrace-test-silent-{os.getpid()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
            silent.bind("\0" + name)
            silent.listen()
            process = self.start("sleep", "60", env={**os.environ, "MMTRACE_HEAP_SOCKET": "@" + name})
            time.sleep(0.2)
            result = self.attach(process.pid)
            self.assertEqual(result.returncode, 0, result.stderr)
            silent.setblocking(False)
            self.assertRaises(BlockingIOError, silent.accept)
        self.assertIsNone(process.poll())

    def test_waits_that_a_stop_would_end(self):
        """epoll_wait() and its like return EINTR when their thread is stopped, though no signal came."""
        process = self.start(self.compile(
            "#include <sys/epoll.h>\nint main(void) { struct epoll_event e;"
            " return epoll_wait(epoll_create1(0), &e, 1, 3000) == 0 ? 0 : 1; }\n"))
        time.sleep(0.2)
        for _ in range(2):
            self.assertEqual(self.attach(process.pid).returncode, 0)
        self.assertEqual(process.wait(20), 0)

    def test_between_vfork_and_execve(self):
        process = self.start(self.compile(
            "#include <unistd.h>\n#include <sys/wait.h>\n"
            "int main(void) { if (vfork() == 0) { sleep(2); _exit(0); } int s; wait(&s); return s; }\n"))
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        self.until(lambda: children.read_text())
        result = self.attach(int(children.read_text()))
        self.assertEqual(result.returncode, 1)
        self.assertIn("vfork", result.stderr)
        self.assertEqual(self.attach(process.pid).returncode, 1)  # it waits in the kernel
        self.assertEqual(process.wait(20), 0)


if __name__ == "__main__":
    unittest.main()
