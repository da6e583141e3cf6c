# SPDX-License-Identifier: Apache-2.0
"""Heap profiles under faults: recorders that stand still or are killed, processes in odd states.
The programs go on unharmed, and losses are counted."""
import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import time
import unittest

import states
from lib import MMTRACE, run, wait_for
from test_heap import TRUTH, WORK as THREADS, attach
from test_heap_service import Service

# Reads orders, a line each, and says when each is done.
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
        self.until_said(recorder, "attached")
        return recorder

    def rest(self, recorder):
        """Waits until the recorder has read the ring, and has then found it empty."""
        states.wait_for_turns(recorder.pid, 4)

    def n_kept(self):
        """Live samples of the function that allocates most."""
        return self.query("select sum(count) from heap_profile_allocation group by callsite_id"
                          " order by sum(abs(count)) desc limit 1")[0][0]

    def test_frees_that_are_lost_are_made_good_for(self):
        """The program frees while no recorder reads, and does nothing afterwards."""
        process = self.start_piped("python3", "-c", WORK)
        recorder = self.profile(process, "-i", "1", "--shmem-size", "65536", "--no-block-client")
        for _ in range(6):  # the ring has room for a part
            self.work(process, "keep", 100)
            self.rest(recorder)
        recorder.send_signal(signal.SIGSTOP)
        states.wait_for_state(recorder.pid, "T")
        self.work(process, "burst", 3000)
        self.work(process, "drop", 3500)
        recorder.send_signal(signal.SIGCONT)
        self.rest(recorder)
        self.end(recorder)
        self.assertGreater(self.stat("mmsql_heap_lost_frees"), 100)
        # a busy machine loses some of the first samples
        self.assertIn(self.n_kept(), range(50, 101))

    def test_a_recorder_that_stands_still_for_long(self):
        """The program waits for room for five seconds. After that, samples that do not fit are
        counted."""
        process = self.start_piped("python3", "-c", WORK)
        recorder = self.profile(process, "-i", "1", "--shmem-size", "65536")
        self.work(process, "burst", 100)
        self.rest(recorder)
        recorder.send_signal(signal.SIGSTOP)
        states.wait_for_state(recorder.pid, "T")
        self.work(process, "burst", 20000)
        # From then on the program no longer waits, and each piece of work is quick.
        for _ in range(5):
            began = time.monotonic()
            self.work(process, "burst", 20000)
            lasted = time.monotonic() - began
            if lasted < 3:
                break
        self.assertLess(lasted, 3)
        recorder.send_signal(signal.SIGCONT)
        self.rest(recorder)
        self.work(process, "burst", 100)
        self.end(recorder)
        self.assertGreater(self.stat("mmsql_heap_lost_allocations"), 20000)
        self.assertEqual(self.stat("heapprofd_buffer_corrupted"), 0)

    def test_a_recorder_that_is_killed_holds_up_nobody(self):
        """The program waits for room. The kernel tells the program that the recorder is dead."""
        process = self.start_piped("python3", "-c", WORK)
        recorder = self.profile(process, "-i", "1", "--shmem-size", "65536")
        recorder.send_signal(signal.SIGSTOP)
        states.wait_for_state(recorder.pid, "T")
        process.stdin.write("burst 20000\n")
        process.stdin.flush()
        time.sleep(0.3)  # by then the ring is full
        began = time.monotonic()
        recorder.kill()
        self.assertEqual(process.stdout.readline(), "done\n")
        self.assertLess(time.monotonic() - began, 3)  # a silent recorder counts as dead after five
        self.work(process, "burst", 100)  # this removes the hooks
        again = self.profile(process, "-i", "1")
        self.work(process, "keep", 100)
        self.rest(again)
        self.end(again)
        self.assertGreater(self.n_kept(), 90)


class Many(Service):
    def test_processes_that_have_ended_take_no_descriptors(self):
        script = "for i in $(seq 150); do sleep 0.02; done; echo as ever"
        result = run("prlimit", "--nofile=100", MMTRACE, "heap", "-o", self.trace, "-i", "1", "--",
                     "sh", "-c", script)
        self.assertEqual((result.returncode, result.stdout), (0, "as ever\n"), result.stderr)
        self.assertNotIn("open files", result.stderr)
        (n,), = self.query("select count(distinct upid) from heap_profile_allocation")
        self.assertGreater(n, 150)

    def test_commands_that_end_at_once(self):
        """A process that has ended before its perf map is looked for has no unread map."""
        for _ in range(30):
            result = run(MMTRACE, "heap", "-o", self.trace, "--", "true")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("perf_map", result.stderr)

    def test_a_process_that_is_stopped_meanwhile(self):
        """The process is profiled or rejected, at whatever step of the attachment the signal
        arrives. The recorder ends, and the process can go on later."""
        process, n_rejected = self.start("sleep", "300"), 0
        for step in range(12):
            self.trace.unlink(missing_ok=True)
            recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-d", "300", "-p", process.pid)
            time.sleep(step * 0.004)
            process.send_signal(signal.SIGSTOP)
            said = recorder.communicate(timeout=60)[1]
            states.wait_for_state(process.pid, "T")
            process.send_signal(signal.SIGCONT)
            is_rejected = self.stat("heapprofd_rejected_concurrent") == 1
            n_rejected += is_rejected
            self.assertEqual(recorder.returncode, int(is_rejected), said)
            self.assertRegex(said, "it (is|was just) stopped" if is_rejected else ": attached")
        self.assertGreater(n_rejected, 0)
        self.assertEqual(attach(self.trace, process.pid, 0).returncode, 0)


class Programs(Service):
    """Tests with programs of their own."""

    def attach(self, pid):
        """Attaches to a process that may be doing anything, sleeping included."""
        return attach(self.trace, pid, 0)

    def attach_for(self, pid, ms):
        """Attaches for some milliseconds; any outcome is right."""
        return run(MMTRACE, "heap", "-o", self.trace, "-d", ms, "-p", pid)

    def compile(self, text):
        source, program = self.dir / "odd.c", self.dir / "odd"
        source.write_text(text)
        done = run("cc", "-O1", "-o", program, source, "-pthread", "-ldl")
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def profile(self, *argv, options=()):
        return run(MMTRACE, "heap", "-o", self.trace, *options, "--", *argv)


# Allocates, enters a jail in which only the allocator can work, and allocates on. HOW: prctl or
# syscall; WHO: the process, a child after fork, or both with a second thread (which the jail takes
# in, too).
JAIL = r"""
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ALLOW(n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, 1), \
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void work(int n)
{
    static __thread void *keep[1000];
    for (int i = 0; i < n; i++) {
        free(keep[i % 1000]);
        keep[i % 1000] = malloc(100 + i % 3000);
    }
}

static void enter(const char *how, int flags)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write), ALLOW(SYS_brk), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_exit),
        ALLOW(SYS_exit_group), ALLOW(SYS_futex), ALLOW(SYS_rt_sigreturn), ALLOW(SYS_mprotect),
        ALLOW(SYS_madvise), ALLOW(SYS_rt_sigprocmask),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (strcmp(how, "prctl") == 0 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
                                  : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program))
        _exit(4);
}

static volatile int over, begun;

static void *work_on(void *unused)
{
    for (; !over; begun = 1)
        work(1000);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int status, threads = strcmp(argv[2], "threads") == 0;
    struct pollfd told = {STDIN_FILENO, POLLIN, 0};
    do
        work(20000);
    while (argc > 3 && poll(&told, 1, 10) == 0);
    work(20000);
    if (threads && pthread_create(&thread, NULL, work_on, NULL) != 0)
        return 5;
    while (threads && !begun)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (strcmp(argv[2], "child") == 0 && fork() != 0) {
        work(20000);
        wait4(-1, &status, 0, NULL);
        return status ? 3 : 0;
    }
    enter(argv[1], threads ? SECCOMP_FILTER_FLAG_TSYNC : 0);
    work(500000);
    over = 1;
    if (threads)
        pthread_join(thread, NULL);
    if (write(1, "as ever\n", 8) != 8)
        return 6;
    _exit(0);
}
"""


class Jail(Programs):
    def test_entered_after_the_start(self):
        program = self.compile(JAIL)
        for how, who in (("prctl", "process"), ("syscall", "process"), ("prctl", "child"),
                         ("syscall", "threads")):
            with self.subTest(how=how, who=who):
                result = self.profile(program, how, who,
                                      options=("-i", "64", "--shmem-size", "65536"))
                self.assertEqual((result.returncode, result.stdout), (0, "as ever\n"),
                                 result.stderr)
                self.assertEqual("seccomp jail" in result.stderr, who != "child", result.stderr)
                (n,), = self.query("select sum(count) from heap_profile_allocation where size > 0")
                self.assertGreater(n, 1000)

    def test_entered_after_it_was_attached_to(self):
        program = self.compile(JAIL)
        for how, who in (("prctl", "process"), ("prctl", "child"), ("syscall", "threads")):
            with self.subTest(how=how, who=who):
                process = self.start_piped(program, how, who, "when told")
                states.wait_for_program(process.pid, program.name)
                recorder = self.start(MMTRACE, "heap", "-i", "64", "-o", self.trace, "-p",
                                      process.pid)
                self.until_said(recorder, "attached")
                states.wait_for_samples(process.pid)
                process.stdin.write("\n")
                process.stdin.flush()
                self.assertEqual(process.stdout.read(), "as ever\n")
                self.assertEqual(process.wait(60), 0)
                self.end(recorder)


class Rights(Programs):
    def test_a_process_that_gives_up_its_rights(self):
        """The process's /proc belongs to root from then on. Libraries are loaded, and the hooks are
        removed at the end."""
        if os.geteuid() != 0:
            self.skipTest("needs root, to give it up")
        code = (
            "import ctypes, os, select, sys\nos.setgroups([])\nkeep = [bytes(3000) for _ in "
            "range(3000)]\n"
            "os.setresgid(65534, 65534, 65534)\nos.setresuid(65534, 65534, 65534)\n"
            "ctypes.CDLL('liblzma.so.5')\n"
            "for _ in range(int(sys.argv[1])):\n    keep = [bytes(3000) for _ in range(1000)]\n"
            "    if select.select([sys.stdin], [], [], 0.01)[0]:\n        break\nprint('as "
            "ever')\n")
        result = self.profile("python3", "-c", code, "10")
        self.assertEqual((result.returncode, result.stdout), (0, "as ever\n"), result.stderr)
        process = self.start_piped("python3", "-c", code, "1000000")
        states.wait_for_text(process.pid, "status", "Uid:\t65534")
        library = MMTRACE.parent / "agents/heap/libmmheap.so"
        may_load = all(folder.stat().st_mode & 0o001 for folder in library.resolve().parents)
        for _ in range(2):
            result = self.attach(process.pid)
            self.assertEqual(result.returncode, 0 if may_load else 1, result.stderr)
            self.assertEqual("cannot load" in result.stderr, not may_load, result.stderr)
        process.stdin.close()
        self.assertEqual(process.stdout.read(), "as ever\n")
        self.assertEqual(process.wait(60), 0)

    def test_it_does_so_while_it_is_attached_to(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to give it up")
        code = (
            "import os, select, sys\nkeep = [bytes(3000) for _ in range(3000)]\nprint('ready', "
            "flush=True)\nsys.stdin.readline()\n"
            "os.setresuid(65534, 65534, 65534)\nwhile not select.select([sys.stdin], [], [], "
            "0.01)[0]:\n"
            "    keep = [bytes(3000) for _ in range(1000)]\nprint('as ever')\n")
        process = self.start_piped("python3", "-c", code)
        self.assertEqual(process.stdout.readline(), "ready\n")
        recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-p", process.pid)
        self.until_said(recorder, "attached")
        process.stdin.write("\n")
        process.stdin.flush()
        states.wait_for_cpu(process.pid)
        self.assertIn("Uid:\t65534", states.proc_text(process.pid, "status"))
        self.end(recorder)
        self.assertIsNone(process.poll())
        # A program that allocates removes the hooks itself.
        wait_for(lambda: "memfd:mmheap " not in states.proc_text(process.pid, "maps"),
                 "the end of the hooks")
        process.stdin.close()
        self.assertEqual(process.stdout.read(), "as ever\n")
        self.assertEqual(process.wait(60), 0)

    def test_a_program_that_gets_other_rights(self):
        """The loader leaves the library out, and the program runs as always."""
        if os.geteuid() != 0:
            self.skipTest("needs root, to give files away")
        os.chmod(self.dir, 0o755)
        program = self.dir / "other_rights"
        shutil.copy(TRUTH, program)
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o4755)
        result = self.profile("sh", "-c", f"{program} 1 1000 && {TRUTH} 1 1000 && echo as ever")
        self.assertEqual((result.returncode, result.stdout), (0, "as ever\n"), result.stderr)


class Threads(Programs):
    def test_allocations_are_no_cancellation_points(self):
        """An allocation that waits for room is no cancellation point either: a thread that is
        cancelled in the wait goes on to its next cancellation point."""
        program = self.compile(
            "#include <pthread.h>\n#include <stdlib.h>\n#include <stdio.h>\nstatic volatile int "
            "n_done;\n"
            "static pthread_barrier_t barrier;\nstatic void *run(void *p) {\n    void *volatile "
            "keep[300];\n"
            "    pthread_barrier_wait(&barrier);\n    for (int i = 0; i < 300; i++) keep[i] = "
            "malloc(1000);\n"
            "    for (int i = 0; i < 300; i++) free(keep[i]);\n    __atomic_fetch_add(&n_done, 1, "
            "5);\n"
            "    pthread_testcancel();\n    return p;\n}\n"
            "int main(void) {\n    pthread_barrier_init(&barrier, NULL, 2);\n"
            "    for (int i = 0; i < 300; i++) {\n        pthread_t thread;\n"
            "        if (pthread_create(&thread, NULL, run, NULL) != 0) return 1;\n"
            "        pthread_barrier_wait(&barrier);\n        pthread_cancel(thread);\n        "
            "pthread_join(thread, NULL);\n"
            "    }\n    printf(\"%d\\n\", n_done);\n}\n")
        result = self.profile(program, options=("-i", "1", "--shmem-size", "8192"))
        self.assertEqual((result.returncode, result.stdout), (0, "300\n"), result.stderr)

    def test_libraries_that_come_and_go_while_it_is_attached_to(self):
        """The program loads ten thousand libraries, with four attaches in between."""
        code = (
            "import ctypes, _ctypes, sys\nkeep = []\nfor i in range(10000):\n"
            "    _ctypes.dlclose(_ctypes.dlopen('liblzma.so.5', 2))\n    keep.append(bytes(2000))\n"
            "    if i % 100 == 0: keep.clear()\n    if i % 2500 == 0:\n        print(i, "
            "flush=True); sys.stdin.readline()\n"
            "print('as ever')\n")
        process = self.start_piped("python3", "-c", code)
        for i in range(4):
            self.assertEqual(process.stdout.readline(), f"{i * 2500}\n")
            recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-p", process.pid)
            self.until_said(recorder, "attached")
            process.stdin.write("\n")
            process.stdin.flush()
            with contextlib.suppress(AssertionError):  # the program may have ended
                states.wait_for_cpu(process.pid, 0.05)
            self.end(recorder)
        self.assertEqual(process.stdout.read(), "as ever\n")
        self.assertEqual(process.wait(30), 0)


class Bomb(Programs):
    def test_programs_that_start_programs(self):
        """127 programs start, half of them at the same time, each with a ring of its own."""
        script = self.dir / "bomb"
        script.write_text(
            '#!/bin/sh\n[ $1 = 0 ] && exit 0\nsh $0 $(($1 - 1)) & sh $0 $(($1 - 1)) & wait\n')
        result = self.profile("sh", script, "6", options=("--shmem-size", "65536", "-i", "256"))
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
        self.assertEqual(self.stat("heapprofd_buffer_corrupted"), 0)
        (n,), = self.query(
            "select count(distinct pid) from process where upid in (select upid from "
            "heap_profile_allocation)")
        self.assertGreater(n, 100)

    def test_a_recorder_that_answers_late(self):
        """On a busy machine, the recorder's answer may take longer than two seconds."""
        recorder = self.start_piped(MMTRACE, "heap", "-o", self.trace, "-i", "256", "--", "sh",
                                    "-c", "echo begun; read line; ls /; echo $?")
        self.assertEqual(recorder.stdout.readline(), "begun\n")
        recorder.send_signal(signal.SIGSTOP)
        states.wait_for_state(recorder.pid, "T")
        recorder.stdin.write("\n")
        recorder.stdin.flush()
        wait_for(lambda: "ls" in states.names_of_children(recorder.pid), "ls starts")
        time.sleep(3)
        recorder.send_signal(signal.SIGCONT)
        self.assertEqual(recorder.communicate(timeout=60)[0].splitlines()[-1], "0")
        (n,), = self.query("select count(distinct upid) from heap_profile_allocation")
        self.assertEqual(n, 2)


class Odd(Programs):
    def test_a_recorder_that_was_killed_is_followed_by_another(self):
        """In a sleeping process, no thread runs that could remove the hooks."""
        process = self.start("sleep", "600")
        states.wait_for_program(process.pid, "sleep")
        for _ in range(2):
            recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-p", process.pid)
            self.until_said(recorder, "attached")
            recorder.kill()
            recorder.wait()
        result = self.attach(process.pid)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIsNone(process.poll())

    def test_helpers_that_are_killed_at_any_moment(self):
        """The thread that a helper had borrowed goes on, with its signals and its priority."""
        process = self.start_piped("python3", "-c", THREADS)
        wait_for(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 4, "its threads")
        for _ in range(10):
            recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-d", "50", "-p", process.pid)
            children = pathlib.Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children")
            wait_for(lambda: recorder.poll() is not None or children.read_text(), "the helper")
            time.sleep(random.random() * 0.02)
            if recorder.poll() is None and (helpers := children.read_text().split()):
                os.kill(int(helpers[0]), signal.SIGKILL)
            recorder.communicate(timeout=30)
        for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
            # The guard may still be at work.
            wait_for(lambda: "SigBlk:\t0000000000000000" in (task / "status").read_text(),
                     "its signals")
            wait_for(lambda: os.sched_getscheduler(int(task.name)) == os.SCHED_OTHER,
                     "its priority")
        process.stdin.close()
        self.assertEqual(process.wait(60), 0)

    def test_a_socket_that_nobody_answers_at(self):
        """A process to which the recorder attached does not ask at the socket."""
        name = f"mmtrace-test-silent-{os.getpid()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
            silent.bind("\0" + name)
            silent.listen()
            process = self.start("sleep", "600",
                                 env={**os.environ, "MMTRACE_HEAP_SOCKET": "@" + name})
            states.wait_for_program(process.pid, "sleep")
            result = self.attach(process.pid)
            self.assertEqual(result.returncode, 0, result.stderr)
            silent.setblocking(False)
            self.assertRaises(BlockingIOError, silent.accept)
        self.assertIsNone(process.poll())

    def test_waits_that_a_stop_would_end(self):
        """epoll_wait() and its like return EINTR when their thread is stopped, though no signal
        came."""
        process = self.start(self.compile(
            "#include <sys/epoll.h>\nint main(void) { struct epoll_event e;"
            " return epoll_wait(epoll_create1(0), &e, 1, 3000) == 0 ? 0 : 1; }\n"))
        states.wait_for_program(process.pid, "odd")
        for _ in range(2):
            self.assertEqual(self.attach(process.pid).returncode, 0)
        self.assertEqual(process.wait(60), 0)

    def test_one_that_executes_others_all_the_time(self):
        """Threads end meanwhile: execve() waits for the end of each thread, so a helper that has
        stopped a thread must detach from it."""
        process = self.start_piped(self.compile(
            "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
            "static void *run(void *p) { for (;;) { free(malloc(1000)); usleep(10); } return p; }\n"
            "int main(int argc, char **argv) {\n    pthread_t t;\n    char number[16];\n"
            "    for (int i = 0; i < 8; i++) if (pthread_create(&t, NULL, run, NULL) != 0) return "
            "2;\n"
            "    if (argc < 2 || atoi(argv[1]) == 0) return puts(\"as ever\") < 0;\n"
            "    snprintf(number, sizeof(number), \"%d\", atoi(argv[1]) - 1);\n"
            "    return execl(\"/proc/self/exe\", argv[0], number, NULL);\n}\n"), 3000)
        while process.poll() is None:
            self.attach_for(process.pid, 10)
        self.assertEqual((process.returncode, process.stdout.read()), (0, "as ever\n"))

    def test_between_vfork_and_execve(self):
        process = self.start(self.compile(
            "#include <unistd.h>\n#include <sys/wait.h>\n"
            "int main(void) { if (vfork() == 0) { sleep(5); _exit(0); } int s; wait(&s); return s; "
            "}\n"))
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_for(children.read_text, "the child")
        result = self.attach(int(children.read_text()))
        self.assertEqual(result.returncode, 1)
        self.assertIn("vfork", result.stderr)
        self.assertEqual(self.attach(process.pid).returncode, 1)  # the helper waits in the kernel
        self.assertEqual(process.wait(20), 0)


if __name__ == "__main__":
    unittest.main()
