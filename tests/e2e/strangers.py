# SPDX-License-Identifier: Apache-2.0
"""Processes without root's rights that try to turn a program of root's against root.

Each is a fork of the test that has given up its rights and runs one function. Its time is bounded:
the kernel ends the process after LIMIT_S whatever happens to the test. The end of the process
closes everything that it has open, a FUSE file system included, so that no other process stays
stuck.
"""
import array
import contextlib
import ctypes
import mmap
import os
import pathlib
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import lib
from protowire import bind, field, frame

PROGRAM = lib.BUILD / "tests" / "tools" / "stranger"
UIDS_FROM, UIDS_EACH = 58000, 10  # no user of the machine has these numbers
LIMIT_S = 90
TCP_LINGER_S = 60
N_LINGERING = 20
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000


def take_uid():
    """Reserves UIDS_EACH users for this process of tests, and returns the first one and the lock.
    Other tests, which count or limit the processes of their users, can run at the same time. The
    lock is the name of a socket, which ends with the process."""
    for uid in range(UIDS_FROM, UIDS_FROM + 100 * UIDS_EACH, UIDS_EACH):
        lock = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            lock.bind(f"\0mmtrace-tests-user-{uid}")
            return uid, lock
        lock.close()
    raise RuntimeError("too many tests at the same time")


UID, UID_LOCK = take_uid()


class Stranger:
    """A process of another user that runs act(voice, *arguments); voice.say() is heard by
    hear()."""

    def __init__(self, act, *arguments, uid=UID, gid=None, groups=()):
        ours, theirs = socket.socketpair()
        ours.settimeout(60)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                signal.alarm(LIMIT_S)
                ours.close()
                os.setpgid(0, 0)
                os.setgroups(list(groups))
                os.setresgid(*[uid if gid is None else gid] * 3)
                os.setresuid(uid, uid, uid)
                act(Voice(theirs), *arguments)
            except BaseException as error:  # the child must not go on as the test after any error
                Voice(theirs).say(f"failed: {error!r}")
            finally:
                os._exit(0)
        with contextlib.suppress(OSError):
            # parent and child both do this, so that it is done before either goes on
            os.setpgid(self.pid, self.pid)
        theirs.close()
        self.lines = ours.makefile("r")
        ours.close()

    def hear(self):
        """The next line that the stranger says. A line about a failure fails the test."""
        line = self.lines.readline().rstrip("\n")
        if not line or line.startswith("failed: "):
            raise AssertionError(f"the stranger says {line!r}")
        if line.startswith("cannot: "):
            raise unittest.SkipTest(line)
        return line

    def end(self):
        if self.pid:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.lines.close()
        self.pid = 0


class Voice:
    def __init__(self, stream):
        self.stream = stream

    def say(self, text):
        self.stream.sendall(f"{text}\n".encode())

    def stay(self):
        """Waits until the test ends this process."""
        while True:
            time.sleep(60)


def make_link(target, path):
    """Makes a link to the target."""
    def act(voice):
        os.symlink(target, path)
        voice.say("made")

    stranger = Stranger(act)
    try:
        stranger.hear()
    finally:
        stranger.end()


def figure(test, text):
    """Prints a figure of a test, if figures are wanted."""
    if os.environ.get("MMTRACE_FIGURES"):
        print(f"{test.id()}: {text}")


class Timed:
    """Calls do() again and again in a thread, and notes how long each call takes: the service of
    other users."""

    def __init__(self, do, period_s=0.05):
        self.seconds, self.errors = [], []
        self.ends = threading.Event()

        def work():
            while not self.seconds or not self.ends.wait(period_s):
                begin = time.monotonic()
                try:
                    do()
                except Exception as error:  # the test reports it
                    self.errors.append(error)
                self.seconds.append(time.monotonic() - begin)
        # A test that fails before stop() must not keep the whole run from ending.
        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()

    def stop(self):
        """Ends the calls. Returns the longest and the median time."""
        self.ends.set()
        self.thread.join()
        ordered = sorted(self.seconds)
        return ordered[-1], ordered[len(ordered) // 2]


def enter_namespaces(voice):
    """Enters a new user namespace and a new mount namespace, in which this process may mount."""
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    # PR_SET_DUMPABLE: without it, a process that changed its user may not write its own map
    libc.prctl(4, 1)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0:
        voice.say(f"cannot: no user namespaces: {os.strerror(ctypes.get_errno())}")
        os._exit(0)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"),
                       ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return libc


def fuse_device(folder):
    """Makes a device for FUSE in the folder. Every user may open the device, like /dev/fuse on most
    systems."""
    path = folder / "fuse"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(10, 229))
        os.chmod(path, 0o666)
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        raise unittest.SkipTest(f"no device for FUSE: {error.strerror}") from None
    return path


INIT, GETATTR, OPEN, FLUSH, RELEASE, FORGET, INTERRUPT, BATCH_FORGET, WRITE, READ = (
    26, 3, 14, 25, 18, 2, 36, 42, 16, 15)
FUSE_FILE_SIZE = 1 << 20


class FuseFile:
    """A file of a FUSE file system of this process, mounted over `path`, and open as `open_fd`.
    Once it is open, the file system does not answer the requests in `deaf`, and answers the first
    read with an error."""

    def __init__(self, voice, device, path, deaf=(FLUSH,)):
        libc = enter_namespaces(voice)
        fuse_fd = os.open(device, os.O_RDWR)  # in the namespace that mounts it
        options = f"fd={fuse_fd},rootmode=100000,user_id={os.getuid()},group_id={os.getgid()}"
        if libc.mount(b"stranger", os.fsencode(path), b"fuse", 0, options.encode()) < 0:
            voice.say(f"cannot: mount FUSE: {os.strerror(ctypes.get_errno())}")
            os._exit(0)
        self.fd, self.deaf = fuse_fd, deaf
        self.unanswered, self.tell = os.pipe()  # a byte for each request without an answer
        # the end of this process frees each process that waits for an answer
        if os.fork() == 0:
            self.serve()
        os.close(fuse_fd)
        os.stat(path)  # the kernel learns the owner of the file
        self.open_fd = os.open(path, os.O_RDWR)

    def serve(self):
        is_open = has_read = False
        while True:
            data = os.read(self.fd, 1 << 17)
            _, opcode, unique, node = struct.unpack_from("<IIQQ", data)
            is_open = is_open or opcode == OPEN
            is_first_read = opcode == READ and not has_read
            has_read |= is_first_read
            if opcode in (FORGET, INTERRUPT, BATCH_FORGET) or (
                    is_open and opcode in self.deaf and not is_first_read):
                os.write(self.tell, b".")
                continue
            error, body = 0, b""
            if opcode == INIT:
                body = struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 16, 12, 1 << 16, 1, 16, 0,
                                   0)
            elif opcode == GETATTR:
                attr = struct.pack("<QQQQQQIIIIIIIIII", node, FUSE_FILE_SIZE, 0, 0, 0, 0, 0, 0,
                                   0, 0o100666, 1,
                                   os.getuid(), os.getgid(), 0, 4096, 0)
                body = struct.pack("<QII", 3600, 0, 0) + attr
            elif opcode == OPEN:
                body = struct.pack("<QII", 1, 0, 0)
            elif opcode == WRITE:
                body = struct.pack("<II", struct.unpack_from("<I", data, 40 + 16)[0], 0)
            elif opcode not in (FLUSH, RELEASE):
                error = -38
            os.write(self.fd, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


def pass_descriptor(voice, path, service, request, fd):
    """Sends a request with a descriptor to the service at the socket `path`."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        client.connect(str(path))
        client.sendall(bind(service))
        client.recv(65536)
        try:
            client.sendmsg([request],
                           [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        except PermissionError:
            voice.say("the kernel refuses the descriptor")
            return
        with contextlib.suppress(OSError):
            client.recv(65536)
        voice.say("sent")


def pass_fuse(voice, device, mount_on, path, service, request, deaf):
    """Says "open", and does what pass_descriptor() does with a file that never answers the requests
    in `deaf`."""
    file = FuseFile(voice, device, mount_on, deaf)
    voice.say("open")
    pass_descriptor(voice, path, service, request, file.open_fd)
    voice.stay()


def hold_memory_map(voice, device, mount_on):
    """Holds the lock of its memory map for ever, under its pid, which it says: one thread is in a
    page fault on a file of a FUSE file system that does not answer. The kernel lets go of the lock
    only in the first attempt of a fault, which the file system answers with an error. Another
    thread waits to change the map, and readers of the map wait behind this thread. A child, which
    shares the map until it executes a program, holds its lock of execve while it waits."""
    file = FuseFile(voice, device, mount_on, (READ,))
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                          ctypes.c_int, ctypes.c_long)
    at = libc.mmap(None, FUSE_FILE_SIZE, mmap.PROT_READ, mmap.MAP_SHARED, file.open_fd, 0)
    begins = threading.Event()

    def change():
        begins.wait()
        while True:  # ctypes lets other threads run meanwhile
            libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
            time.sleep(0.1)

    def execute():  # by vfork()
        begins.wait()
        time.sleep(0.2)
        subprocess.run(["/bin/true"], check=False)
    fault = threading.Thread(target=libc.memchr, args=(ctypes.c_void_p(at), 1, 1), daemon=True)
    for target in (change, execute):
        threading.Thread(target=target, daemon=True).start()
    fault.start()
    os.read(file.unanswered, 1)
    begins.set()
    voice.say(str(os.getpid()))
    voice.stay()


def connect_again(voice, path):
    """Connects to a socket of messages again and again."""
    n = 0
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(str(path))
        n += 1
        if n == 300:
            voice.say("connected")


def pass_lingering(voice, path, port, kind=socket.SOCK_STREAM, message=frame(field(2, 1))):
    """Passes TCP connections with bytes that nobody reads: close() by the last holder of a
    connection waits until the bytes are read."""
    passed, tell = os.pipe()
    for _ in range(N_LINGERING):
        tcp = socket.socket()
        tcp.connect(("127.0.0.1", port))
        tcp.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                tcp.send(bytes(65536))
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, TCP_LINGER_S))
        tcp.setblocking(True)
        heard, told = os.pipe()
        if os.fork():
            os.close(heard)
            os.close(tcp.detach())  # the child still has the connection, so this does not wait
            os.close(told)
            continue
        os.close(told)
        os.read(heard, 1)
        signal.alarm(LIMIT_S)
        client = socket.socket(socket.AF_UNIX, kind)
        client.connect(str(path))
        with contextlib.suppress(OSError):  # the kernel may refuse the descriptor
            client.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                        array.array("i", [tcp.fileno()]))])
        os.write(tell, b"x")
        os.close(tcp.detach())  # usually before the daemon has received the descriptor
        time.sleep(60)
        os._exit(0)
    for _ in range(N_LINGERING):
        os.read(passed, 1)
    voice.say("sent")
    voice.stay()


OLD_KERNEL = """
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    if (level == SOL_SOCKET && name == 83)
        return errno = ENOPROTOOPT, -1;
    return (int)syscall(SYS_setsockopt, fd, level, name, value, size);
}
int getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
    if (level == SOL_SOCKET && name == 83)
        return errno = ENOPROTOOPT, -1;
    return (int)syscall(SYS_getsockopt, fd, level, name, value, size);
}
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t n = syscall(SYS_sendmsg, fd, message, flags);
    if (n > 0 && message->msg_controllen > 0)
        poll(0, 0, 20);
    return n;
}
"""


def old_kernel(test):
    """Makes a library to preload. With the library, the kernel seems unable to refuse descriptors,
    as before Linux 6.16. A sender of a descriptor waits for a moment, so that the receiver is done
    before the sender goes on. The test needs a compiler (lib.needs_program("cc"))."""
    if lib.is_sanitized():
        test.skipTest("a sanitizer wants to be loaded first")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-old-"))
    test.addCleanup(shutil.rmtree, folder)
    (folder / "old.c").write_text(OLD_KERNEL)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "old.so", folder / "old.c"],
                   check=True)
    return folder / "old.so"


def start_program(*argv, uid=UID, **more):
    """Starts tests/tools/stranger as a user without rights. The caller ends the program."""
    return subprocess.Popen([str(arg) for arg in (PROGRAM, *argv)], stdout=subprocess.PIPE,
                            text=True, user=uid, group=uid,
                            extra_groups=[], **more)


def hear_program(process):
    """The next line that the program says."""
    line = process.stdout.readline()
    if line.startswith("cannot: "):
        raise unittest.SkipTest(line.rstrip())
    if not line:
        raise AssertionError("the program has ended")
    return line
