# SPDX-License-Identifier: Apache-2.0
"""Programs that were preloaded with libmmheap.so, run without profile, and are woken by a signal."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

from lib import MMTRACE, hides_tmp, needs_namespaces, run
from test_heap import LIBRARY, TRUTH, WORK, Heap

SIGNAL = signal.SIGURG
REAL_TIME = 46

# Sleeps, allocates, sleeps, allocates: what comes in between is when it can be woken.
LATE = """
import sys, time
print("ready", flush=True)
for _ in range(2):
    time.sleep(float(sys.argv[1]))
    keep = [bytes(3000) for _ in range(3000)]
time.sleep(float(sys.argv[1]))
print("as ever")
"""

# A filter that lets everything pass: what counts is that there is one.
FILTER = """
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None)
class F(ctypes.Structure):
    _fields_ = [("c", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class P(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("f", ctypes.POINTER(F))]
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, ctypes.byref(P(1, (F * 1)(F(6, 0, 0, 0x7fff0000)))), 0, 0) == 0
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""


class Dormant(Heap):
    def start(self, *argv, wrapper=(), **environment):
        process = subprocess.Popen(
            [str(a) for a in (*wrapper, "env", f"LD_PRELOAD={LIBRARY}", *argv)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment},
        )
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_until(self, what, seconds=10):
        end = time.monotonic() + seconds
        while not (found := what()):
            self.assertLess(time.monotonic(), end, "it takes too long")
            time.sleep(0.02)
        return found

    def is_dormant(self, pid):
        try:
            return "memfd:mmheap-dormant" in pathlib.Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            return False

    def begin(self, *argv, **more):
        """One that sleeps already. It says so by its mapping before anything of its own runs."""
        process = self.start(*argv, **more)
        program = str(argv[0]).encode()
        cmdline = pathlib.Path(f"/proc/{process.pid}/cmdline")
        self.wait_until(lambda: cmdline.read_bytes().startswith(program) and self.is_dormant(process.pid))
        return process

    def attach(self, pid, ms=400, options=()):
        return run(MMTRACE, "heap", "-o", self.trace, "-d", ms, *options, "-p", pid)

    def check_end(self, process):
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out, err), (0, "as ever\n", ""))

    def test_again_and_again(self):
        process = self.begin("python3", "-c", WORK, "5")
        proc, seen = pathlib.Path(f"/proc/{process.pid}"), []
        for _ in range(4):
            result = self.attach(process.pid)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("woken", result.stderr)
            self.assertIn("_PyEval_EvalFrameDefault", result.stderr)
            (flag,), = self.query("select count(*) from heap_profile_allocation")
            self.assertGreater(flag, 0)
            seen.append((len(list((proc / "fd").iterdir())), len((proc / "maps").read_text().splitlines())))
        self.assertEqual(len({fds for fds, _ in seen}), 1, seen)
        self.assertLess(max(maps for _, maps in seen[1:]) - min(maps for _, maps in seen[1:]), 6, seen)
        self.check_end(process)
        self.assertEqual([p for p in pathlib.Path("/tmp").glob(".mmheap-*") if p.is_socket()], [])

    def test_nothing_is_in_the_way_of_a_dormant_program(self):
        """No thread, no descriptor, no hook; and the next program in the same process is told nothing."""
        process = self.begin("python3", "-c", "import time, os; print(len(os.listdir('/proc/self/task')),"
                             " len(os.listdir('/proc/self/fd')), flush=True); time.sleep(0.5);"
                             " os.execvpe('python3', ['python3', '-c', 'import time; time.sleep(1)'], {'PATH': '/usr/bin'})")
        plain = run("python3", "-c", "import os; print(len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd')))",
                    stdin=None)
        status = pathlib.Path(f"/proc/{process.pid}/status")
        self.assertTrue(int(status.read_text().split("SigCgt:")[1].split()[0], 16) >> (SIGNAL - 1) & 1)
        self.assertEqual(process.stdout.readline(), plain.stdout)
        time.sleep(0.7)
        self.assertFalse(int(status.read_text().split("SigCgt:")[1].split()[0], 16) >> (SIGNAL - 1) & 1)
        result = self.attach(process.pid, ms=200)
        self.assertNotIn("woken", result.stderr)
        self.assertEqual(process.wait(20), 0)

    def test_threads_under_load(self):
        process = self.begin(TRUTH, "4", "1500000")
        for _ in range(2):
            result = self.attach(process.pid, ms=100)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("keep_small (heap_truth)", result.stderr)
        self.assertEqual(process.wait(60), 0)

    def test_a_sleeper_is_attached_to(self):
        if not (LIBRARY.parent / "mmheap-attach").exists():
            self.skipTest("mmheap-attach is not in this build")
        process = self.begin("python3", "-c", LATE, "0.9")
        self.assertEqual(process.stdout.readline(), "ready\n")
        result = self.attach(process.pid, ms=300)
        self.assertIn("attached", result.stderr)
        self.check_end(process)

    def test_a_program_that_takes_the_signal_for_itself(self):
        """It finds the signal free, has it from there on, and is not woken by it."""
        for number in (SIGNAL, REAL_TIME):
            code = (
                "import signal, sys, time\nprint('ready', flush=True)\ntime.sleep(0.3)\n"
                f"before = signal.signal({number}, lambda *a: print('mine', flush=True))\n"
                "print(before == signal.SIG_DFL, flush=True)\n"
                "time.sleep(1)\nkeep = [bytes(3000) for _ in range(3000)]\nprint('as ever')\n"
            )
            process = self.begin("python3", "-c", code, MMTRACE_HEAP_SIGNAL=str(int(number)))
            self.assertEqual(process.stdout.readline(), "ready\n")
            self.assertTrue(self.is_dormant(process.pid))
            self.assertEqual(process.stdout.readline(), "True\n")
            self.assertFalse(self.is_dormant(process.pid))
            result = self.attach(process.pid, ms=1200)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("woken", result.stderr)
            self.check_end(process)

    def test_a_program_that_sets_all_signals_to_what_they_are_by_default(self):
        code = (
            "import signal, time\nfor number in range(1, 32):\n    if number not in (2, 9, 17, 19):\n"
            "        assert signal.signal(number, signal.SIG_DFL) in (signal.SIG_DFL, signal.SIG_IGN, None), number\n"
            f"assert signal.getsignal({SIGNAL:d}) == signal.SIG_DFL\n" + WORK
        )
        process = self.begin("python3", "-c", code, "1.5")
        time.sleep(0.3)
        result = self.attach(process.pid, ms=300)
        self.assertIn("woken", result.stderr)
        self.check_end(process)

    def test_a_signal_of_the_users_choice(self):
        process = self.begin("python3", "-c", WORK, "1.5", MMTRACE_HEAP_SIGNAL=str(REAL_TIME))
        self.assertIn("woken", self.attach(process.pid, ms=300).stderr)
        self.check_end(process)
        self.assertNotIn("memfd:mmheap-dormant", self.maps_of(MMTRACE_HEAP_SIGNAL="0"))

    def test_programs_that_execute_others_all_the_time(self):
        """A summons that comes while one is on its way to the next does neither of them any harm."""
        source, program = self.dir / "again.c", self.dir / "again"
        source.write_text(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
            "int main(int argc, char **argv) {\n    static char text[100000], number[16];\n    static char *args[13];\n"
            "    int left = atoi(argv[1]);\n    (void)argc;\n    memset(text, 'x', sizeof(text) - 1);\n"
            "    free(malloc(100));\n    if (left == 0)\n        return puts(\"as ever\") < 0;\n"
            "    snprintf(number, sizeof(number), \"%d\", left - 1);\n    args[0] = argv[0];\n    args[1] = number;\n"
            "    for (int i = 2; i < 12; i++)\n        args[i] = text;\n    execv(\"/proc/self/exe\", args);\n"
            "    return 3;\n}\n")
        done = run("cc", "-O1", "-o", program, source)
        self.assertEqual(done.returncode, 0, done.stderr)
        process = self.start(program, "700")
        for _ in range(12):
            self.attach(process.pid, ms=110)
            if process.poll() is not None:
                break
        self.check_end(process)

    def maps_of(self, **environment):
        process = self.start("cat", "/proc/self/maps", **environment)
        return process.communicate(timeout=20)[0]

    def test_a_signal_that_is_taken_is_left_alone(self):
        code = f"import signal, os; signal.signal({SIGNAL}, signal.SIG_IGN); os.execvp('cat', ['cat', '/proc/self/maps'])"
        process = self.start("python3", "-c", code)
        self.assertNotIn("memfd:mmheap-dormant", process.communicate(timeout=20)[0])

    def test_signals_from_others(self):
        process = self.begin("python3", "-c", LATE, "0.4")
        self.assertEqual(process.stdout.readline(), "ready\n")
        for _ in range(20):
            process.send_signal(SIGNAL)
        self.check_end(process)

    def descendant(self, pid, code):
        """The dormant program below `pid` that runs `code`."""
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
        for child in map(int, children.read_text().split() if children.exists() else ()):
            argv = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if argv[1:3] == [b"-c", code.encode()] and self.is_dormant(child):
                return child
            if found := self.descendant(child, code):
                return found
        return 0

    def test_a_jail_of_its_own(self):
        process = self.start("python3", "-c", FILTER, "python3", "-c", WORK, "2")
        child = self.wait_until(lambda: self.descendant(process.pid, WORK))
        result = self.attach(child, ms=200)
        self.assertEqual(result.returncode, 1)
        self.assertIn("seccomp", result.stderr)
        self.check_end(process)

    @needs_namespaces
    @hides_tmp
    def test_a_container_with_a_filter(self):
        """Other mounts, pids and network, and a filter around all of it: nobody may attach, and the program comes
        when it allocates."""
        script = "mount -t tmpfs none /run && mount -t tmpfs none /tmp && exec \"$@\""
        wrapper = (
            "unshare", "--mount", "--pid", "--net", "--fork", "--mount-proc", "--kill-child",
            "sh", "-c", script, "sh", sys.executable, "-c", FILTER,
        )
        process = self.start("python3", "-c", LATE, "1.5", wrapper=wrapper)
        pid = self.wait_until(lambda: self.descendant(process.pid, LATE))
        self.assertEqual(process.stdout.readline(), "ready\n")
        result = self.attach(pid, ms=4500)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("profiled from its next allocation on", result.stderr)
        self.assertIn("woken", result.stderr)
        (allocated,), = self.query("select sum(size) from heap_profile_allocation where size > 0")
        self.assertGreater(allocated, 3000 * 3000 / 2)
        self.check_end(process)

    def test_a_library_of_another_version(self):
        """What is called is what is in the process, wherever it lies there."""
        if not (LIBRARY.parent / "mmheap-attach").exists():
            self.skipTest("mmheap-attach is not in this build")
        other = self.dir / LIBRARY.name
        source = self.dir / "other.c"
        source.write_text("int before(void) { return 1; }\nint mmheap_attach(int fd) { (void)fd; return -71; }\n")
        self.assertEqual(run("cc", "-shared", "-fPIC", "-o", other, source).returncode, 0)
        process = subprocess.Popen(["sleep", "2"], env={**os.environ, "LD_PRELOAD": str(other)})
        self.addCleanup(process.kill)
        time.sleep(0.2)
        result = self.attach(process.pid, ms=200)
        self.assertEqual(result.returncode, 1)
        self.assertIn("another version of libmmheap.so", result.stderr)
        self.assertEqual(process.wait(20), 0)

    def test_two_recorders(self):
        process = self.begin("python3", "-c", WORK, "3")
        command = [str(MMTRACE), "heap", "-q", "-o", str(self.dir / "first"), "-d", "1500", "-p", str(process.pid)]
        with subprocess.Popen(command) as first:
            time.sleep(0.6)
            second = self.attach(process.pid, ms=300)
            self.assertEqual(second.returncode, 1)
            self.assertIn("profiled already", second.stderr)
            self.assertGreater(self.stat("heapprofd_rejected_concurrent"), 0)
            self.assertEqual(first.wait(30), 0)
        self.check_end(process)

    def test_by_name_and_children_that_fork(self):
        name = self.dir / "sleepy_victim"
        shutil.copy(sys.executable, name)
        code = (
            "import os, time\nkeep = []\nend = time.monotonic() + 2\n"
            "while time.monotonic() < end:\n"
            "    keep.append(bytes(5000))\n"
            "    if len(keep) % 50 == 0:\n"
            "        if os.fork() == 0:\n"
            "            more = [bytes(5000) for _ in range(100)]\n"
            "            os._exit(0)\n"
            "        os.wait()\n"
            "print('as ever')\n"
        )
        process = self.begin(name, "-c", code)
        result = run(MMTRACE, "heap", "-o", self.trace, "-d", "800", "--no-startup", "-n", "sleepy_victim")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("woken", result.stderr)
        self.check_end(process)


class OtherLibraries(Heap):
    """Programs that cannot be profiled run as ever, and the reason is said."""

    def build(self, compiler, *options):
        source, program = self.dir / "program.c", self.dir / "program"
        source.write_text(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nstatic void *volatile p;\n"
            "int main(int argc, char **argv) {\n    for (int i = 0; i < 1000; i++) p = malloc(100);\n"
            "    puts(\"as ever\");\n    fflush(stdout);\n    return argc > 1 ? sleep(atoi(argv[1])) : 0;\n}\n"
        )
        result = run(compiler, *options, "-o", program, source)
        if result.returncode != 0:
            self.skipTest(f"{compiler}: {result.stderr}")
        return program

    def check(self, program, reason):
        result = run(MMTRACE, "heap", "-o", self.trace, "--", program)
        self.assertEqual((result.returncode, result.stdout), (1, "as ever\n"), result.stderr)
        self.assertIn(reason, result.stderr)
        with subprocess.Popen([program, "1"], stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            result = run(MMTRACE, "heap", "-d", "100", "-o", self.trace, "-p", process.pid)
            self.assertEqual(result.returncode, 1)
            if (LIBRARY.parent / "mmheap-attach").exists():
                self.assertIn(reason, result.stderr)
            self.assertEqual(process.wait(10), 0)

    def test_static(self):
        self.check(self.build("cc", "-static"), "it is a static program")

    @unittest.skipUnless(shutil.which("musl-gcc"), "needs musl-gcc")
    def test_musl(self):
        program = self.build("musl-gcc")
        self.check(program, "its C library is musl")
        plain = run(program, env={**os.environ, "LD_PRELOAD": str(LIBRARY)})
        self.assertEqual((plain.returncode, plain.stdout, plain.stderr), (0, "as ever\n", ""))
        mixed = run(MMTRACE, "heap", "-o", self.trace, "--", "sh", "-c", f"{program}; {TRUTH}; {program}")
        self.assertEqual((mixed.returncode, mixed.stdout), (0, "as ever\n" * 2), mixed.stderr)
        self.assertIn("keep_small", mixed.stderr)

    @unittest.skipUnless(shutil.which("musl-gcc"), "needs musl-gcc")
    def test_a_static_program_of_musl(self):
        self.check(self.build("musl-gcc", "-static"), "it is a static program")


if __name__ == "__main__":
    unittest.main()
