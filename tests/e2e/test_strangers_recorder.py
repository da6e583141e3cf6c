# SPDX-License-Identifier: Apache-2.0
"""Strangers in the place of the recorder: a dormant program, or a child after fork, asks at a
socket for memory, and a stranger has the name of the socket (docs/threat-model.md)."""
import array
import contextlib
import os
import pathlib
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import states
import strangers
from lib import BUILD, MMTRACE, needs_root, run, wait_for
from test_heap import LIBRARY

VICTIM = strangers.UID + 7  # no other summons in /tmp is for this user
# The shell allocates only after it has read a line.
SHELL = "echo ready; while read line; do all=$all$line$line; echo allocated; done"
SIBLINGS = BUILD / "tests" / "tools" / "siblings"
PREFIX = ".mmheap-"
CONNECT = {"x86_64": 42}.get(os.uname().machine, 203)  # system call
RING_BYTES, TABLE_BYTES, HEADER_BYTES = 1 << 16, 8 << 22, 4096
INTERVAL_AT = 2624  # in struct heap_header


def ring_of_a_stranger():
    """Memory that looks like a ring to a client, but has no seals."""
    header = bytearray(HEADER_BYTES)
    struct.pack_into("<IIQ", header, 0, 0x706d6d48, 9, RING_BYTES)
    struct.pack_into("<Q", header, INTERVAL_AT, 1)
    ring = os.memfd_create("stranger")
    os.truncate(ring, HEADER_BYTES + RING_BYTES + TABLE_BYTES)
    os.pwrite(ring, header, 0)
    return ring


def summons_of(uid):
    """The paths of sockets that wait for programs of the user."""
    found = []
    with os.scandir("/tmp") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if (entry.name.startswith(PREFIX)
                        and entry.stat(follow_symlinks=False).st_uid == uid):
                    found.append(entry.path)
    return found


def take_name(voice, path):
    """Serves at the name of a summons that its recorder has given up."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    os.chmod(path, 0o777)
    listener.listen(4)
    voice.say("taken")
    ring = ring_of_a_stranger()
    try:
        while True:
            client, _ = listener.accept()
            with contextlib.suppress(OSError):
                client.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                         array.array("i", [ring]))])
            voice.say("given")
    finally:
        os.unlink(path)


def fill_queue(voice, path):
    """Takes the name of a recorder's socket, accepts nobody, and fills the queue: a client that
    connects has to wait."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    if path[0] != "\0":
        os.chmod(path, 0o777)
    listener.listen(0)
    waiting = []
    with contextlib.suppress(BlockingIOError):
        while True:
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            client.setblocking(False)
            waiting.append(client)
            client.connect(path)
    voice.say("taken")
    voice.stay()


class Impostors(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-impostor-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.dir.chmod(0o755)
        self.trace = self.dir / "trace"


@needs_root
class LateSummons(Impostors):
    def late_victim(self):
        """Starts a dormant program of another user, lets root's recorder summon it, and ends the
        recorder before the program allocates. Returns the program and the name of the summons."""
        # Every user can open this copy. The recorder's helper would be beside the library: without
        # the helper the recorder cannot attach, and waits for the next allocation.
        library = self.dir / LIBRARY.name
        shutil.copy(LIBRARY, library)
        victim = subprocess.Popen(
            ["/bin/sh", "-c", SHELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            user=VICTIM, group=VICTIM, extra_groups=[],
            env={**os.environ, "LD_PRELOAD": str(library)})
        for stream in (victim.stdin, victim.stdout):
            self.addCleanup(stream.close)
        self.addCleanup(victim.wait)
        self.addCleanup(victim.kill)
        self.assertEqual(victim.stdout.readline(), "ready\n")
        recorder = subprocess.Popen(
            [MMTRACE, "heap", "-o", self.trace, "-p", str(victim.pid)], text=True,
            stderr=subprocess.PIPE, env={**os.environ, "MMTRACE_HEAP_LIBRARY": str(library)})
        self.addCleanup(recorder.stderr.close)
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        said = ""
        while "is profiled from its next allocation on" not in said:
            line = recorder.stderr.readline()
            self.assertTrue(line, said)
            said += line
        path, = summons_of(VICTIM)
        recorder.terminate()
        recorder.communicate(timeout=60)
        wait_for(lambda: not os.path.exists(path), "the end of the summons")
        return victim, path

    def step(self, victim):
        victim.stdin.write("x" * 5000 + "\n")
        victim.stdin.flush()
        self.assertEqual(victim.stdout.readline(), "allocated\n")

    def taken(self, act, path):
        thief = strangers.Stranger(act, path)
        self.addCleanup(pathlib.Path(path).unlink, missing_ok=True)
        self.addCleanup(thief.end)
        self.assertEqual(thief.hear(), "taken")
        return thief

    def test_memory_of_a_stranger_is_not_taken(self):
        """A stranger who had the memory could end the program by making the memory shorter."""
        victim, path = self.late_victim()
        thief = self.taken(take_name, path)
        self.step(victim)
        self.assertEqual(thief.hear(), "given")  # the program came, and hung up
        maps = pathlib.Path(f"/proc/{victim.pid}/maps").read_text()
        self.assertNotIn("memfd:stranger", maps)
        self.step(victim)

    def test_nobody_waits_in_the_queue_of_a_stranger(self):
        victim, path = self.late_victim()
        self.taken(fill_queue, path)
        began = time.monotonic()
        victim.stdin.write("x" * 5000 + "\n")
        victim.stdin.flush()
        while not select.select([victim.stdout], [], [], 0.01)[0]:
            # A thread that is not blocked, but waits for a processor, is "running" there.
            waits = states.proc_text(victim.pid, "syscall").startswith(f"{CONNECT} ")
            self.assertFalse(waits and time.monotonic() - began > 1, "it waits in connect()")
        self.assertEqual(victim.stdout.readline(), "allocated\n")
        strangers.figure(self, f"the next allocation takes {time.monotonic() - began:.3f} s")

    def test_a_name_of_a_recorder_that_has_ended(self):
        """A program waits long for the recorder that has started it, but not for a stranger."""
        name = f"mmtrace-heap-own-{os.getpid()}"
        thief = strangers.Stranger(fill_queue, "\0" + name)
        self.addCleanup(thief.end)
        self.assertEqual(thief.hear(), "taken")
        began = time.monotonic()
        done = run("sh", "-c", "echo as ever", env={
            **os.environ, "LD_PRELOAD": str(LIBRARY), "MMTRACE_HEAP_SOCKET": "@" + name})
        self.assertEqual((done.returncode, done.stdout), (0, "as ever\n"))
        self.assertLess(time.monotonic() - began, 20)


@needs_root
class Siblings(Impostors):
    def test_a_child_without_rights_does_not_choose_for_others(self):
        """A child of root's program that has given up its rights shares memory with its parent;
        later children still ask root's recorder."""
        theirs = self.dir / "theirs"
        theirs.mkdir()
        os.chown(theirs, strangers.UID, strangers.UID)
        done = run(MMTRACE, "heap", "-o", self.trace, "--", SIBLINGS, theirs / "ask", strangers.UID,
                   timeout_s=60)
        self.assertEqual((done.returncode, done.stdout), (0, "nobody\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
