# SPDX-License-Identifier: Apache-2.0
"""Programs in seccomp jails: a filter that permits all calls of a profile, as the filters of
containers do, is not an obstacle. If a filter forbids a call, the message names the call, and
nothing happens."""
import platform
import signal
import subprocess
import sys
import unittest

import lib
from test_heap import Heap

ALLOW, KILL, ERRNO = 0x7fff0000, 0x80000000, 0x00050001
# Numbers of x86-64.
MEMFD_CREATE, MOUNT, PTRACE, KEXEC_LOAD, BPF, UNSHARE, SOCKET = 319, 165, 101, 246, 321, 272, 41
CONTAINER = {number: ERRNO for number in (MOUNT, PTRACE, KEXEC_LOAD, BPF, UNSHARE)}

# Enters a jail that has an answer of its own for some calls, then allocates until its input ends.
PROGRAM = """
import ctypes, select, sys, threading
libc = ctypes.CDLL(None)
answers, other, in_thread = %r, %d, %r
class Op(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte),
                ("k", ctypes.c_uint)]
class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("ops", ctypes.POINTER(Op))]
ops = [Op(0x20, 0, 0, 4), Op(0x15, 1, 0, 0xc000003e), Op(6, 0, 0, 0x80000000), Op(0x20, 0, 0, 0)]
for number, answer in answers.items():
    ops += [Op(0x15, 0, 1, number), Op(6, 0, 0, answer)]
ops += [Op(6, 0, 0, other)]
def enter():
    array = (Op * len(ops))(*ops)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(Program(len(ops), array)), 0, 0) == 0
if in_thread:
    entered = threading.Event()
    def wait():
        enter()
        entered.set()
        threading.Event().wait()
    threading.Thread(target=wait, daemon=True).start()
    entered.wait()
else:
    enter()
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    kept = [bytes(10000) for _ in range(100)]
print("done", flush=True)
"""


@lib.needs_root
@unittest.skipUnless(platform.machine() == "x86_64", "only x86-64 programs are attached to")
class Jails(Heap):
    def start(self, answers, other=ALLOW, in_thread=False):
        process = subprocess.Popen([sys.executable, "-c", PROGRAM % (answers, other, in_thread)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        for file in (process.stderr, process.stdout, process.stdin):
            self.addCleanup(file.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def check_goes_on(self, process):
        out, err = process.communicate("x", timeout=60)
        self.assertEqual((process.returncode, out, err), (0, "done\n", ""))

    def check_refused(self, process, *texts):
        result = self.attach(process.pid, cpu_s=0)
        self.assertEqual(result.returncode, 1, result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)
        self.check_goes_on(process)

    def test_the_filter_of_a_container(self):
        process = self.start(CONTAINER)
        result = self.attach(process.pid)
        self.assertEqual(result.returncode, 0, result.stderr)
        (n,), = self.query("SELECT count(*) FROM heap_profile_allocation")
        self.assertGreater(n, 0)
        self.check_goes_on(process)

    def test_a_filter_that_kills(self):
        self.check_refused(self.start({**CONTAINER, MEMFD_CREATE: KILL}),
                           "seccomp jail, whose filter forbids memfd_create")

    def test_a_filter_that_refuses(self):
        self.check_refused(self.start({**CONTAINER, MEMFD_CREATE: ERRNO}),
                           "whose filter forbids memfd_create")

    def test_a_call_that_need_not_succeed(self):
        """The call makes the socket of children after fork. A profile goes on if the filter refuses
        the call, but not if the filter kills."""
        self.assertEqual(self.attach(self.start({SOCKET: ERRNO}).pid).returncode, 0)
        self.check_refused(self.start({SOCKET: KILL}), "whose filter forbids socket")

    def test_a_thread_with_a_jail_of_its_own(self):
        self.check_refused(self.start(CONTAINER, in_thread=True),
                           "some of its threads are in a seccomp jail of their own")

    def test_a_strict_jail(self):
        source, program = self.dir / "strict.c", self.dir / "strict"
        source.write_text("#include <sys/prctl.h>\n#include <unistd.h>\n"
                          "int main(void) { char c; prctl(PR_SET_SECCOMP, 1, 0, 0, 0);\n"
                          "write(1, \"ready\\n\", 6); read(0, &c, 1); return 0; }\n")
        self.assertEqual(lib.run("cc", "-o", program, source).returncode, 0)
        process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        with process.stdin, process.stdout:
            self.assertEqual(process.stdout.readline(), b"ready\n")
            result = self.attach(process.pid, cpu_s=0)
            self.assertIn("strict seccomp jail", result.stderr)
            self.assertIsNone(process.poll())
            process.send_signal(signal.SIGKILL)


del Heap

if __name__ == "__main__":
    unittest.main()
