# SPDX-License-Identifier: Apache-2.0
"""Programs that are preloaded with libmmheap.so, run without a profile, and are woken by a
signal."""
import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import unittest

import states
import lib
from lib import MMTRACE, hides_tmp, needs_namespaces, run, wait_for
from test_heap import HELPER, LIBRARY, TRUTH, WORK, Heap, attach, needs_helper

SIGNAL = signal.SIGURG
REAL_TIME = 46
SUMMONS_IN_TMP = 0  # the remainder that selects the folder: HEAP_SUMMONS_FOLDERS

# Waits for a line, allocates, waits, allocates. The program can be woken in between.
LATE = """
import sys
print("ready", flush=True)
for _ in range(2):
    sys.stdin.readline()
    keep = [bytes(3000) for _ in range(3000)]
    print("allocated", flush=True)
sys.stdin.readline()
print("as ever")
"""

# A filter that forbids attaching: it refuses memfd_create (319 on x86-64) with MFD_ALLOW_SEALING. A
# dormant program does not need this call.
FILTER = """
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None)
class F(ctypes.Structure):
    _fields_ = [("c", ctypes.c_ushort), ("jt", ctypes.c_ubyte),
                ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class P(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("f", ctypes.POINTER(F))]
libc.prctl(38, 1, 0, 0, 0)
ops = (F(0x20, 0, 0, 0), F(0x15, 0, 3, 319), F(0x20, 0, 0, 24), F(0x45, 0, 1, 2),
       F(6, 0, 0, 0x50001), F(6, 0, 0, 0x7fff0000))
assert libc.prctl(22, 2, ctypes.byref(P(len(ops), (F * len(ops))(*ops))), 0, 0) == 0
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""


class Dormant(Heap):
    def start(self, *argv, wrapper=(), **environment):
        process = subprocess.Popen(
            [str(a) for a in (*wrapper, "env", f"LD_PRELOAD={LIBRARY}", *argv)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **environment},
        )
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def is_dormant(self, pid):
        try:
            return "memfd:mmheap-dormant" in pathlib.Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            return False

    def begin(self, *argv, **more):
        """Starts a program that is dormant. Its mapping shows this before the program's own code
        runs."""
        process = self.start(*argv, **more)
        program = str(argv[0]).encode()
        cmdline = pathlib.Path(f"/proc/{process.pid}/cmdline")
        wait_for(lambda: cmdline.read_bytes().startswith(program) and self.is_dormant(process.pid),
                 "a dormant program")
        return process

    def attach_for(self, pid, ms):
        """Attaches for some milliseconds; any outcome is right."""
        return run(MMTRACE, "heap", "-o", self.trace, "-d", ms, "-p", pid)

    def step(self, process):
        """Lets the program go on. Returns the next line that the program writes."""
        process.stdin.write("\n")
        process.stdin.flush()
        return process.stdout.readline()

    def check_end(self, process):
        """Ends the program by the end of its input. Asserts that it has run as always."""
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out.replace("allocated\n", ""), err),
                         (0, "as ever\n", ""))

    @staticmethod
    def sockets():
        return {path for path in pathlib.Path("/tmp").glob(".mmheap-*") if path.suffix != ".java"}

    def test_again_and_again(self):
        before = self.sockets()
        process = self.begin("python3", "-c", WORK)
        proc, seen = pathlib.Path(f"/proc/{process.pid}"), []
        for _ in range(4):
            result = self.attach(process.pid)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("woken", result.stderr)
            self.assertIn("_PyEval_EvalFrameDefault", result.stderr)
            (flag,), = self.query("select count(*) from heap_profile_allocation")
            self.assertGreater(flag, 0)
            seen.append((len(list((proc / "fd").iterdir())),
                         len((proc / "maps").read_text().splitlines())))
        self.assertEqual(len({fds for fds, _ in seen}), 1, seen)
        self.assertLess(max(maps for _, maps in seen[1:]) - min(maps for _, maps in seen[1:]), 6,
                        seen)
        self.check_end(process)
        # Sockets of other recorders come and go in the same folder. A socket that this recorder
        # left would stay.
        left = self.sockets() - before
        wait_for(lambda: not left & self.sockets(), lambda: f"the end of {left & self.sockets()}")

    def test_nothing_is_in_the_way_of_a_dormant_program(self):
        """The library adds no thread, no descriptor and no hook. The next program in the process
        has nothing of the library."""
        process = self.begin("python3", "-c",
                             "import time, os; print(len(os.listdir('/proc/self/task')),"
                             " len(os.listdir('/proc/self/fd')), flush=True); input();"
                             " os.execvpe('python3', ['python3', '-c', 'print(1, flush=True); "
                             "input(); input()'], {'PATH': '/usr/bin'})")
        plain = run("python3", "-c",
                    "import os; print(len(os.listdir('/proc/self/task')), "
                    "len(os.listdir('/proc/self/fd')))",
                    stdin=None)
        status = pathlib.Path(f"/proc/{process.pid}/status")
        self.assertTrue(int(status.read_text().split("SigCgt:")[1].split()[0], 16) >> (SIGNAL - 1)
                        & 1)
        self.assertEqual(process.stdout.readline(), plain.stdout)
        self.assertEqual(self.step(process), "1\n")
        self.assertFalse(int(status.read_text().split("SigCgt:")[1].split()[0], 16) >> (SIGNAL - 1)
                         & 1)
        result = self.attach(process.pid, 0)
        self.assertNotIn("woken", result.stderr)
        process.communicate("\n\n", timeout=60)
        self.assertEqual(process.returncode, 0)

    def test_threads_under_load(self):
        self.attach_to_truth(self.begin(TRUTH, "4", "1500000"), 2)

    def summon(self, pid):
        """Summons the process like a recorder. Returns the connection that the process opens."""
        number = os.getpid() << 8 | SUMMONS_IN_TMP
        path = pathlib.Path(f"/tmp/.mmheap-{number:016x}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            self.addCleanup(path.unlink)
            listener.listen(1)
            listener.settimeout(60)
            self.assertEqual(ctypes.CDLL(None).sigqueue(pid, SIGNAL, ctypes.c_void_p(number)), 0)
            yield
            connection, _ = listener.accept()
        self.addCleanup(connection.close)
        self.assertEqual(connection.recv(1), b"r")
        yield

    @needs_helper
    def test_a_recorder_comes_while_a_thread_waits_for_another(self):
        """The thread waits two seconds at most for a recorder that does not answer. The next
        recorder is not refused meanwhile."""
        process = self.begin("python3", "-c", "import threading, time\nthreading.Thread("
                             "target=time.sleep, args=(1000,), daemon=True).start()\n" + LATE)
        self.assertEqual(process.stdout.readline(), "ready\n")
        summons = self.summon(process.pid)
        next(summons)
        process.stdin.write("\n")
        process.stdin.flush()
        next(summons)
        result = self.attach(process.pid, 0)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(process.stdout.readline(), "allocated\n")
        self.check_end(process)

    @needs_helper
    def test_a_sleeper_is_attached_to(self):
        process = self.begin("python3", "-c", LATE)
        self.assertEqual(process.stdout.readline(), "ready\n")
        result = self.attach(process.pid, 0)
        self.assertIn("attached", result.stderr)
        self.check_end(process)

    def test_a_program_that_takes_the_signal_for_itself(self):
        """The program takes the signal, which seems to be free. From then on the signal does not
        wake the library."""
        for number in (SIGNAL, REAL_TIME):
            code = (
                "import signal, sys\nprint('ready', flush=True)\nsys.stdin.readline()\n"
                f"before = signal.signal({number}, lambda *a: print('mine', flush=True))\n"
                "print(before == signal.SIG_DFL, flush=True)\n"
                "sys.stdin.readline()\nkeep = [bytes(3000) for _ in range(3000)]\nprint('as "
                "ever')\n"
            )
            process = self.begin("python3", "-c", code, MMTRACE_HEAP_SIGNAL=str(int(number)))
            self.assertEqual(process.stdout.readline(), "ready\n")
            self.assertTrue(self.is_dormant(process.pid))
            self.assertEqual(self.step(process), "True\n")
            self.assertFalse(self.is_dormant(process.pid))
            result = self.attach(process.pid, 0)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("woken", result.stderr)
            self.check_end(process)

    def test_a_program_that_sets_all_signals_to_what_they_are_by_default(self):
        code = (
            "import signal, time\nfor number in range(1, 32):\n    if number not in (2, 9, 17, "
            "19):\n"
            "        assert signal.signal(number, signal.SIG_DFL) in (signal.SIG_DFL, "
            "signal.SIG_IGN, None), number\n"
            f"assert signal.getsignal({SIGNAL:d}) == signal.SIG_DFL\n" + WORK
        )
        process = self.begin("python3", "-c", code)
        wait_for(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 4, "its threads")
        result = self.attach(process.pid)
        self.assertIn("woken", result.stderr)
        self.check_end(process)

    def test_a_signal_of_the_users_choice(self):
        process = self.begin("python3", "-c", WORK, MMTRACE_HEAP_SIGNAL=str(REAL_TIME))
        self.assertIn("woken", self.attach(process.pid).stderr)
        self.check_end(process)
        self.assertNotIn("memfd:mmheap-dormant", self.maps_of(MMTRACE_HEAP_SIGNAL="0"))

    def test_programs_that_execute_others_all_the_time(self):
        """A summons that comes while the process executes another program harms neither of the two
        programs."""
        source, program = self.dir / "again.c", self.dir / "again"
        source.write_text(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
            "int main(int argc, char **argv) {\n    static char text[100000], number[16];\n    "
            "static char *args[13];\n"
            "    int left = atoi(argv[1]);\n    (void)argc;\n    memset(text, 'x', sizeof(text) - "
            "1);\n"
            "    free(malloc(100));\n    if (left == 0)\n        return puts(\"as ever\") < 0;\n"
            "    snprintf(number, sizeof(number), \"%d\", left - 1);\n    args[0] = argv[0];\n    "
            "args[1] = number;\n"
            "    for (int i = 2; i < 12; i++)\n        args[i] = text;\n    "
            "execv(\"/proc/self/exe\", args);\n"
            "    return 3;\n}\n")
        done = run("cc", "-O1", "-o", program, source)
        self.assertEqual(done.returncode, 0, done.stderr)
        process = self.start(program, "700")
        for _ in range(12):
            self.attach_for(process.pid, 110)
            if process.poll() is not None:
                break
        self.check_end(process)

    def maps_of(self, **environment):
        process = self.start("cat", "/proc/self/maps", **environment)
        return process.communicate(timeout=60)[0]

    def test_a_signal_that_is_taken_is_left_alone(self):
        code = (f"import signal, os; signal.signal({SIGNAL}, signal.SIG_IGN); os.execvp('cat', "
                "['cat', '/proc/self/maps'])")
        process = self.start("python3", "-c", code)
        self.assertNotIn("memfd:mmheap-dormant", process.communicate(timeout=60)[0])

    def test_signals_from_others(self):
        process = self.begin("python3", "-c", LATE)
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
        process = self.start("python3", "-c", FILTER, "python3", "-c", WORK)
        child = wait_for(lambda: self.descendant(process.pid, WORK), "the program in the jail")
        result = self.attach(child)
        self.assertEqual(result.returncode, 1)
        self.assertIn("seccomp", result.stderr)
        self.check_end(process)

    @needs_namespaces
    @hides_tmp
    def test_a_container_with_a_filter(self):
        """Mounts, pids and network of its own, and a seccomp filter: attaching is not allowed, and
        the program asks when it allocates."""
        script = "mount -t tmpfs none /run && mount -t tmpfs none /tmp && exec \"$@\""
        wrapper = (
            "unshare", "--mount", "--pid", "--net", "--fork", "--mount-proc", "--kill-child",
            "sh", "-c", script, "sh", sys.executable, "-c", FILTER,
        )
        process = self.start("python3", "-c", LATE, wrapper=wrapper)
        pid = wait_for(lambda: self.descendant(process.pid, LATE), "the program in the container")
        self.assertEqual(process.stdout.readline(), "ready\n")
        argv = [str(a) for a in (MMTRACE, "heap", "-o", self.trace, "-p", pid)]
        with lib.Popen(argv, stderr=subprocess.PIPE, text=True) as recorder:
            said = recorder.stderr.readline()
            self.assertIn("profiled from its next allocation on", said)
            self.assertEqual(self.step(process), "allocated\n")
            said += recorder.stderr.readline()
            self.assertIn("woken", said)
            self.assertEqual(self.step(process), "allocated\n")
            recorder.send_signal(signal.SIGINT)
            said += recorder.communicate(timeout=60)[1]
        self.assertEqual(recorder.returncode, 0, said)
        (allocated,), = self.query("select sum(size) from heap_profile_allocation where size > 0")
        self.assertGreater(allocated, 3000 * 3000 / 2)
        self.check_end(process)

    @needs_helper
    def test_a_library_of_another_version(self):
        """The recorder calls mmheap_attach() at its address in this process's library. The function
        of another version refuses."""
        other = self.dir / LIBRARY.name
        source = self.dir / "other.c"
        source.write_text(
            "int before(void) { return 1; }\nint mmheap_attach(int fd) { (void)fd; return -71; }\n")
        self.assertEqual(run("cc", "-shared", "-fPIC", "-o", other, source).returncode, 0)
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE,
                                   env={**os.environ, "LD_PRELOAD": str(other)})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        states.wait_for_program(process.pid, "cat")
        result = self.attach(process.pid)
        self.assertEqual(result.returncode, 1)
        self.assertIn("another version of libmmheap.so", result.stderr)
        process.stdin.close()
        self.assertEqual(process.wait(60), 0)

    def test_one_that_hardly_gets_a_processor(self):
        """On a busy machine, the process answers late."""
        process = self.begin("python3", "-c", WORK)
        cpu = min(os.sched_getaffinity(0))
        hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        self.addCleanup(hog.wait)
        self.addCleanup(hog.kill)
        for each in (process, hog):
            os.sched_setaffinity(each.pid, {cpu})
        os.setpriority(os.PRIO_PROCESS, process.pid, 19)
        argv = [str(arg) for arg in (MMTRACE, "heap", "-o", self.trace, "-p", process.pid)]
        with lib.Popen(argv, stderr=subprocess.PIPE, text=True) as recorder:
            self.until_said(recorder, f"process {process.pid}: woken")
            recorder.send_signal(signal.SIGINT)
            said = recorder.stderr.read()
        self.assertEqual(recorder.returncode, int("is not profiled" in said), said)

    def test_two_recorders(self):
        process = self.begin("python3", "-c", WORK)
        self.check_two_recorders(process, "woken")
        self.check_end(process)

    def test_by_name_and_children_that_fork(self):
        name = self.dir / f"sleepy_{os.getpid()}"
        shutil.copy(sys.executable, name)
        code = (
            "import os, select, sys\nkeep = []\n"
            "while not select.select([sys.stdin], [], [], 0)[0]:\n"
            "    keep.append(bytes(5000))\n"
            "    if len(keep) % 50 == 0:\n"
            "        if os.fork() == 0:\n"
            "            more = [bytes(5000) for _ in range(100)]\n"
            "            os._exit(0)\n"
            "        os.wait()\n"
            "print('as ever')\n"
        )
        process = self.begin(name, "-c", code)
        argv = [str(a)
                for a in (MMTRACE, "heap", "-o", self.trace, "--no-startup", "-n", name.name)]
        with lib.Popen(argv, stderr=subprocess.PIPE, text=True) as recorder:
            said = self.until_said(recorder, f"process {process.pid}: woken")
            states.wait_for_cpu(process.pid)
            recorder.send_signal(signal.SIGINT)
            said += recorder.communicate(timeout=60)[1]
        self.assertEqual(recorder.returncode, 0, said)
        self.check_end(process)


class OtherLibraries(Heap):
    """Programs that cannot be profiled run as always, and a message gives the reason."""

    def build(self, compiler, *options):
        source, program = self.dir / "program.c", self.dir / "program"
        source.write_text(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nstatic void *volatile "
            "p;\n"
            "int main(int argc, char **argv) {\n    for (int i = 0; i < 1000; "
            "i++) p = malloc(100);\n"
            "    puts(\"as ever\");\n    fflush(stdout);\n    return argc > 1 ? getchar() != EOF "
            ": 0;\n}\n"
        )
        result = run(compiler, *options, "-o", program, source)
        if result.returncode != 0:
            self.skipTest(f"{compiler}: {result.stderr}")
        return program

    def check(self, program, reason):
        result = run(MMTRACE, "heap", "-o", self.trace, "--", program)
        self.assertEqual((result.returncode, result.stdout), (1, "as ever\n"), result.stderr)
        self.assertIn(reason, result.stderr)
        with lib.Popen([program, "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                       text=True) as process:
            process.stdout.readline()
            result = attach(self.trace, process.pid)
            self.assertEqual(result.returncode, 1)
            if HELPER.exists():
                self.assertIn(reason, result.stderr)
            process.stdin.close()
            self.assertEqual(process.wait(60), 0)

    def test_static(self):
        self.check(self.build("cc", "-static"), "it is a static program")

    @lib.needs_program("musl-gcc")
    def test_musl(self):
        program = self.build("musl-gcc")
        self.check(program, "its C library is musl")
        plain = run(program, env={**os.environ, "LD_PRELOAD": str(LIBRARY)})
        self.assertEqual((plain.returncode, plain.stdout, plain.stderr), (0, "as ever\n", ""))
        mixed = run(MMTRACE, "heap", "-o", self.trace, "--", "sh", "-c",
                    f"{program}; {TRUTH}; {program}")
        self.assertEqual((mixed.returncode, mixed.stdout), (0, "as ever\n" * 2), mixed.stderr)
        self.assertIn("keep_small", mixed.stderr)

    @lib.needs_program("musl-gcc")
    def test_a_static_program_of_musl(self):
        self.check(self.build("musl-gcc", "-static"), "it is a static program")


if __name__ == "__main__":
    unittest.main()
