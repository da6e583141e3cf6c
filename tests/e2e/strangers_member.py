# SPDX-License-Identifier: Apache-2.0
"""Members of the consumer group, who may record, and the time for which the daemon keeps others
waiting."""
import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import lib
import strangers
from protowire import bind, invoke
from strangers_daemon import QUERY_STATE, SERVED_S, Daemon

AT_ONCE_S = 1  # time of the daemon until an answer, at most
UID = strangers.UID


def hurry():
    """Puts this thread before others, so that a busy machine does not delay what it measures."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


class Waits:
    """Looks again and again where the daemon's loop is, and sums the time in which the loop waits
    elsewhere than in epoll_wait(), without a return to epoll_wait() in between."""

    def __init__(self, daemon):
        self.path, self.ends = pathlib.Path(f"/proc/{daemon.process.pid}"), threading.Event()
        self.longest_s = 0
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        hurry()
        waited, last = 0, time.monotonic()
        with contextlib.suppress(OSError):
            while not self.ends.wait(0.01):
                state = (self.path / "stat").read_text().rsplit(")", 1)[1].split()[0]
                place, now = (self.path / "wchan").read_text(), time.monotonic()
                if state in "SD" and place not in ("", "0"):
                    waited = 0 if re.search("epoll|ep_poll", place) else waited + now - last
                self.longest_s = max(self.longest_s, waited)
                last = now

    def stop(self):
        self.ends.set()
        self.thread.join()
        return self.longest_s


class Answers:
    """Asks the daemon again and again, and notes its processor time until each answer."""

    def __init__(self, daemon):
        self.daemon, self.cpu_s = daemon, [0]
        self.waits = Waits(daemon)
        self.timed = strangers.Timed(self.ask)

    def ask(self):
        """The start of a program, as of `mmtrace status`, would take long on a busy machine."""
        hurry()
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(SERVED_S)
            before = self.daemon.cpu_s()
            client.connect(str(self.daemon.run_dir / "consumer.sock"))
            client.sendall(bind())
            client.recv(65536)
            client.sendall(invoke(2, QUERY_STATE))
            client.recv(65536)
            self.cpu_s.append(self.daemon.cpu_s() - before)

    def stop(self):
        """Returns the longest time."""
        self.timed.stop()
        waited = self.waits.stop()
        if self.timed.errors:
            raise self.timed.errors[0]
        strangers.figure(self.daemon.test,
                         f"the daemon works for {max(self.cpu_s):.2f} s until an answer, at most, "
                         f"and waits for {waited:.2f} s")
        return max(*self.cpu_s, waited)


class Members(unittest.TestCase):
    """The user UID may record, and nothing else."""

    def setUp(self):
        self.daemon = Daemon(self, "--consumer-group", str(UID)).ready()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-loop-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.dir.chmod(0o777)

    def begin(self, config, name="trace", buffer=""):
        """Begins a recording of the member."""
        path = self.dir / f"{name}.cfg"
        path.write_text(f"buffers {{ size_kb: 1024 {buffer} }} {config}")
        recorder = lib.Popen([lib.MMTRACE, "record", "-c", path, "-o", self.dir / name],
                             env=self.daemon.env, user=UID, group=UID, extra_groups=[],
                             stderr=subprocess.PIPE, text=True)
        self.addCleanup(recorder.__exit__, None, None, None)
        self.addCleanup(recorder.kill)
        return recorder

    def end(self, recorder):
        said = recorder.communicate(timeout=240)[1]
        self.assertEqual(recorder.returncode, 0, said)
        return said

    def program(self, text, *argv):
        process = subprocess.Popen(["/usr/bin/python3", "-c", text, *argv], user=UID, group=UID,
                                   extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for file in (process.stdin, process.stdout):
            self.addCleanup(file.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process
