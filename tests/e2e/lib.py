# SPDX-License-Identifier: Apache-2.0
"""The shared part of the end-to-end tests: the places of the programs, functions that run them, and
conditions of tests.

MMTRACE_BUILD names the build directory to test (default: build/ in the source tree).
"""
import codecs
import contextlib
import functools
import os
import pathlib
import re
import signal
import shutil
import subprocess
import sys
import time
import unittest
import zlib

import protowire

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))

import load  # noqa: E402

BUILD = pathlib.Path(os.environ.get("MMTRACE_BUILD", ROOT / "build")).resolve()
MMTRACE = BUILD / "producer" / "mmtrace"
PINTOOL = BUILD / "producer" / "pintool" / "pintool"
MMSQL = BUILD / "converter" / "mmsql"
TRACEFS = pathlib.Path("/sys/kernel/tracing")

# Tests never meet a tracing service of the machine: a test that needs a service starts its own.
os.environ["PERFETTO_CONSUMER_SOCK_NAME"] = "/nonexistent/mmtrace-test-consumer"
os.environ["PERFETTO_PRODUCER_SOCK_NAME"] = "/nonexistent/mmtrace-test-producer"

# Tests keep no converted traces, and do not use those of the machine. Only test_query_cache.py uses
# a cache.
os.environ["MMTRACE_CACHE_SIZE"] = "0"

# A parent may ignore signals, as nohup and shells do for background jobs. Programs under test would
# inherit this, and would not end when a test asks them to end.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number,
                      signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


@functools.cache
def is_sanitized():
    """Whether the programs are built with AddressSanitizer or ThreadSanitizer, which need memory
    and time of their own."""
    return any(name in MMTRACE.read_bytes() for name in (b"__asan_init", b"__tsan_init"))


def run(*argv, timeout_s=60, **options):
    """Run a program to its end; stdout and stderr are text. Never raises for an exit code."""
    options.setdefault("text", True)
    return subprocess.run(
        [str(arg) for arg in argv], capture_output=True, timeout=timeout_s, **options
    )


class Popen(subprocess.Popen):
    """subprocess.Popen; a test that fails in the with block ends the program instead of waiting for
    it."""

    def __exit__(self, exc_type, value, traceback):
        if exc_type is not None and self.poll() is None:
            self.kill()
        super().__exit__(exc_type, value, traceback)


def wait_for(condition, what, timeout_s=60):
    """Waits until the value of `condition` is true, and returns the value. Raises an AssertionError
    that names `what` (a text, or a function that returns a text) if the value stays false."""
    end = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout_s} s: {what() if callable(what) else what}")
        time.sleep(0.02)


def longer(ms):
    """Durations for a recording that must be repeated if a busy machine leaves out too much of
    it."""
    return ms, 4 * ms, 16 * ms


@contextlib.contextmanager
def memory_cgroup(limit_bytes):
    """A memory cgroup with a limit; yields a function that moves the calling process into it.
    Raises SkipTest if this user cannot make a memory cgroup."""
    with contextlib.ExitStack() as stack:
        try:
            join = stack.enter_context(load.memory_cgroup(limit_bytes))
        except OSError as error:
            raise unittest.SkipTest(str(error)) from error
        yield join


def long_test(test):
    """Skip a test that takes minutes, except in ./check --long."""
    if os.environ.get("MMTRACE_LONG") == "1":
        return test
    return unittest.skip("takes minutes: ./check --long runs it")(test)


def end_vm(vm):
    """Ends a Java VM. The VM removes its files in /tmp; if it hangs and is killed, they are removed
    here."""
    vm.terminate()
    try:
        vm.wait(10)
    except subprocess.TimeoutExpired:
        vm.kill()
    vm.wait()
    for name in (f".java_pid{vm.pid}", f"perf-{vm.pid}.map", f"perf-{vm.pid}.map.times",
                 f"hsperfdata_root/{vm.pid}"):
        pathlib.Path("/tmp", name).unlink(missing_ok=True)


def needs_program(*names):
    """Skip where a program is missing. scripts/install-deps, and so ./check, installs the
    program."""
    missing = [name for name in names if not shutil.which(name)]
    return unittest.skipIf(missing,
                           f"needs {' and '.join(missing)}, which scripts/install-deps installs")


def has_libdw():
    """Whether mmsql can read symbols."""
    return "libdw" in subprocess.run(["ldd", MMSQL], capture_output=True, text=True,
                                     check=False).stdout


def needs_root(test):
    """Skip without root, except in CI, where such a test must not pass unseen."""
    if os.geteuid() == 0 or os.environ.get("CI") == "true":
        return test
    return unittest.skip("needs root")(test)


def needs_namespaces(test):
    """Skip where mount and pid namespaces cannot be made: without root, or where / is not a mount
    point (a plain chroot)."""
    made = run("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true")
    return test if made.returncode == 0 else unittest.skip(
        f"needs namespaces: {made.stderr.strip()}")(test)


def hides_tmp(test):
    """Skip a test that mounts over /tmp if the build is below /tmp: the mount would hide the
    build."""
    below = pathlib.Path("/tmp") in BUILD.resolve().parents
    return unittest.skip("the build is below /tmp, which this test hides")(test) if below else test


def needs_tracefs(test):
    """Skip if the kernel has no tracefs, or if this user may not change it."""
    if os.access(TRACEFS / "instances", os.W_OK) or os.environ.get("CI") == "true":
        return test
    return unittest.skip(f"needs root and a tracefs at {TRACEFS}")(test)


def tracefs_text(instance, name):
    """The text of a file of a tracefs instance; empty if the kernel has not made the file yet, or
    has removed it."""
    try:
        return (instance / name).read_text()
    except OSError:
        return ""


class Message(dict):
    """A decoded protobuf message: field name -> list of values (int, float, str, or Message)."""

    def one(self, *path, default=None):
        """The first value at a path of field names, or the default."""
        value = self
        for name in path:
            if not isinstance(value, Message) or name not in value:
                return default
            value = value[name][0]
        return value

    def all(self, *path):
        """All values at a path, in order."""
        values = [self]
        for name in path:
            values = [v for value in values for v in value.get(name, [])]
        return values


def _scalar(text):
    if text.startswith('"'):
        return codecs.escape_decode(text[1:-1].encode())[0].decode("utf-8", "surrogateescape")
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return {"true": True, "false": False}.get(text, text)


def parse_text(text):
    """The output of protoc --decode, as a Message."""
    stack = [Message()]
    for line in text.splitlines():
        line = line.strip()
        if line.endswith(" {"):
            message = Message()
            stack[-1].setdefault(line[:-2], []).append(message)
            stack.append(message)
        elif line == "}":
            stack.pop()
        elif line:
            name, value = line.split(": ", 1)
            stack[-1].setdefault(name, []).append(_scalar(value))
    return stack[0]


def frames(data):
    """The bytes of each Trace.packet; raises for a file that does not end at a packet's border."""
    at = 0
    while at < len(data):
        if data[at] != 0x0A:
            raise ValueError(f"no packet at byte {at}")
        size, start = protowire.read_varint(data, at + 1)
        at = start + size
        if at > len(data):
            raise ValueError(f"the packet before byte {start} is cut")
        yield data[start:at]


def inflate(data):
    """The trace with each compressed packet replaced by its contents."""
    tag = bytes([50 << 3 & 0x7F | 0x82, 50 >> 4])  # TracePacket.compressed_packets
    out = bytearray()
    for packet in frames(data):
        if packet.startswith(tag):
            size, start = protowire.read_varint(packet, len(tag))
            out += zlib.decompress(packet[start:start + size])
        else:
            out += protowire.field(1, packet)
    return bytes(out)


def decode(trace):
    """The packets of a trace (bytes, or a path), as protoc reads them through protos/."""
    data = trace if isinstance(trace, bytes) else pathlib.Path(trace).read_bytes()
    return decode_as("perfetto.protos.Trace", "protos/trace/trace_packet.proto",
                     inflate(data)).all("packet")


def decode_as(message, proto, data):
    """The bytes of a message, as protoc reads them by a .proto file of the source tree."""
    argv = ["protoc", f"-I{ROOT}", f"-I{BUILD}", f"--decode={message}", proto]
    done = subprocess.run(argv, input=data, capture_output=True, check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr.decode())
    return parse_text(done.stdout.decode())


def encode(text, message="perfetto.protos.Trace", *protos):
    """The bytes of a message in text form; a Trace, if no other message and its .proto file are
    given."""
    protos = protos or ("protos/trace/trace_packet.proto", "protos/trace/gpu_track_event.proto")
    argv = ["protoc", f"-I{ROOT}", f"-I{BUILD}", f"--encode={message}", *protos]
    done = subprocess.run(argv, input=text if isinstance(text, bytes) else text.encode(),
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr.decode())
    return done.stdout


def of_kind(packets, kind):
    """The packets that have the field `kind`."""
    return [p for p in packets if kind in p]


def skip_in_chroot(test):
    """In a chroot the kernel shows paths of another mount namespace from the root of the machine.
    libunwind looks for them below the root of the process, so stacks of such a process cannot be
    followed."""
    with Popen(["unshare", "--mount", "cat"], stdin=subprocess.PIPE,
               stdout=subprocess.DEVNULL) as process:
        proc = pathlib.Path(f"/proc/{process.pid}")
        wait_for(lambda: os.readlink(proc / "exe").endswith("/cat"), "cat runs")
        paths = re.findall(r" (/\S+)$", (proc / "maps").read_text(), re.MULTILINE)
        found = [os.path.exists(f"{proc}/root{path}") for path in paths]
        process.stdin.close()
    if not all(found):
        test.skipTest(
            "in a chroot, libunwind does not find the files of a process of another mount "
            "namespace")
