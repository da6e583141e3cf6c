# SPDX-License-Identifier: Apache-2.0
"""The heap profiler on real programs: profiles of a program that allocates known amounts; and
programs do not notice the profiler."""
import ctypes
import math
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest

import states
import lib
from lib import BUILD, MMSQL, MMTRACE, decode, needs_namespaces, of_kind, run, wait_for

TRUTH = BUILD / "tests" / "tools" / "heap_truth"
LIBRARY = BUILD / "producer" / "agents" / "heap" / "libmmheap.so"

HELPER = LIBRARY.parent / "mmheap-attach"
needs_helper = unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")

# The memory that each function of heap_truth allocates and frees in a thread with 50,000 rounds:
# the bytes, and the size of one allocation.
ROUNDS = 50000
ALLOCATED = {
    "keep_small": (100 * ROUNDS, 100),
    "drop_small": (300 * ROUNDS, 300),
    "keep_large": (200000 * ROUNDS // 1000, 200000),
    "grow": (240 * ROUNDS, 160),
}
FREED = {"keep_small": 0, "drop_small": 300 * ROUNDS, "keep_large": 0, "grow": 80 * ROUNDS}

def attach(trace, pid, cpu_s=0.1, options=()):
    """Profiles a running process until it has used so much CPU time, or is refused. Returns the
    finished recorder like run().

    For a process that sleeps, cpu_s is 0: the recorder attaches to the process, and ends.
    """
    argv = [str(a) for a in (MMTRACE, "heap", "-o", trace, *options, "-p", pid)]
    with tempfile.TemporaryFile("w+") as log, subprocess.Popen(
            argv, stdout=subprocess.DEVNULL, stderr=log) as recorder:
        def said():
            return os.pread(log.fileno(), 1 << 20, 0).decode()

        def begun():
            return recorder.poll() is not None or re.search(
                f"process {pid}: (attached|woken)|not profiled:", said())
        try:
            wait_for(begun, f"process {pid} is attached to")
            if cpu_s and "not profiled:" not in said():
                states.wait_for_cpu(pid, cpu_s)
            recorder.send_signal(signal.SIGINT)
            recorder.wait(60)
        finally:
            recorder.kill()
        return subprocess.CompletedProcess(argv, recorder.returncode, "", said())


BY_FUNCTION = """
select f.name, sum(max(a.size, 0)), -sum(min(a.size, 0))
from heap_profile_allocation a
join stack_profile_callsite c on c.id = a.callsite_id
join stack_profile_frame f on f.id = c.frame_id
group by f.name
"""


class Recorders(unittest.TestCase):
    def until_said(self, recorder, text):
        """Reads what a recorder says, up to a line with the text."""
        said = ""
        late = threading.Timer(120, recorder.kill)  # ends readline()
        late.start()
        try:
            while text not in said:
                said += (line := recorder.stderr.readline())
                self.assertTrue(line, f"'{text}' is not in: {said}")
        finally:
            late.cancel()
        return said


@unittest.skipUnless(LIBRARY.exists(), "libmmheap.so is not in this build")
class Heap(Recorders):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.dir)
        self.trace = self.dir / "heap.pftrace"

    def profile(self, *argv, options=(), **more):
        result = run(MMTRACE, "heap", "-o", self.trace, *options, "--", *argv, **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def attach(self, pid, cpu_s=0.1, options=()):
        return attach(self.trace, pid, cpu_s, options)

    def check_two_recorders(self, process, said):
        """The second recorder of a process is refused. The first says `said` when it has begun."""
        command = [str(MMTRACE), "heap", "-o", str(self.dir / "first"), "-p", str(process.pid)]
        with lib.Popen(command, stderr=subprocess.PIPE, text=True) as first:
            self.until_said(first, said)
            second = self.attach(process.pid)
            self.assertEqual(second.returncode, 1)
            self.assertIn("profiled already", second.stderr)
            self.assertGreater(self.stat("heapprofd_rejected_concurrent"), 0)
            first.send_signal(signal.SIGINT)
            first.communicate(timeout=60)
            self.assertEqual(first.returncode, 0)

    def check_unchanged(self, *argv, options=("-i", "64"), **more):
        """Asserts that the program prints equal output with and without a profile, and is
        sampled."""
        plain = run(*argv, **more)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        profiled = self.profile(*argv, options=options, **more)
        self.assertEqual(profiled.stdout, plain.stdout)
        (n,), = self.query("select count(*) from heap_profile_allocation")
        self.assertGreater(n, 0)

    def attach_to_truth(self, process, turns):
        """Attaches `turns` times to heap_truth while its threads allocate, or until the program has
        ended."""
        for turn in range(turns):
            try:
                result = self.attach(process.pid, 0.05)
            except AssertionError:  # the program was faster
                self.assertTrue(turn > 0 and process.poll() is not None)
                break
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("keep_small (heap_truth)", result.stderr)
        self.assertEqual(process.wait(60), 0)

    def query(self, sql):
        database = self.dir / "heap.db"
        database.unlink(missing_ok=True)
        result = run(MMSQL, "convert", self.trace, "-o", database)
        self.assertEqual(result.returncode, 0, result.stderr)
        connection = sqlite3.connect(database)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def stat(self, name):
        return sum(row[0] for row in self.query(f"select value from stats where name = '{name}'"))

    def check_truth(self, interval, threads=1):
        rows = {name: (allocated, freed) for name, allocated, freed in self.query(BY_FUNCTION)}
        for function, (bytes_, size) in ALLOCATED.items():
            allocated, freed = rows[function]
            for what, got, real in (
                ("allocated", allocated, bytes_ * threads),
                ("freed", freed, FREED[function] * threads),
            ):
                points = real / interval
                # The figures are exact if the interval is 1, or so small that each allocation is
                # sampled.
                error = 0 if interval == 1 or size >= interval * math.log(
                    100) else 5 * interval * math.sqrt(points)
                with self.subTest(function=function, what=what, interval=interval):
                    self.assertLessEqual(abs(got - real), error, f"{got} instead of {real}")


class GroundTruth(Heap):
    def test_every_allocation(self):
        self.profile(TRUTH, "1", ROUNDS, options=("-i", "1"))
        self.check_truth(1)

    def test_intervals(self):
        for interval in (256, 4096, 65536):
            self.profile(TRUTH, "1", ROUNDS, options=("-i", interval))
            self.check_truth(interval)

    def test_threads(self):
        self.profile(TRUTH, "4", ROUNDS)
        self.check_truth(4096, threads=4)
        self.assertEqual(self.stat("heapprofd_buffer_overran"), 0)

    def test_the_stack_leads_from_the_beginning_to_the_function(self):
        self.profile(TRUTH, "1", ROUNDS)
        rows = self.query(
            """
            with recursive up(site, id, name) as (
              select c.id, c.parent_id, f.name from stack_profile_callsite c
              join stack_profile_frame f on f.id = c.frame_id where f.name = 'keep_small'
              union all
              select site, c.parent_id, f.name from up
              join stack_profile_callsite c on c.id = up.id
              join stack_profile_frame f on f.id = c.frame_id)
            select group_concat(name, ' ') from (select * from up where name != '') group by site
            """
        )
        self.assertEqual(len(rows), 1)
        self.assertTrue(rows[0][0].startswith("keep_small one_round run"), rows)

    def test_dumps_add_up(self):
        self.profile(TRUTH, "2", 20 * ROUNDS, options=("-c", "50", "-i", "65536"), timeout_s=120)
        (n,), = self.query("select count(distinct ts) from heap_profile_allocation")
        self.assertGreater(n, 1)
        (got,), = self.query(
            "select sum(size) from heap_profile_allocation a join stack_profile_callsite c on c.id "
            "= a.callsite_id"
            " join stack_profile_frame f on f.id = c.frame_id where f.name = 'keep_small'"
        )
        real = 100 * 40 * ROUNDS
        self.assertLessEqual(abs(got - real), 5 * 65536 * math.sqrt(real / 65536))
        # Perfetto forgets the totals of the earlier dump when the state is cleared. Each name is
        # there once.
        packets = decode(self.trace)
        heap = of_kind(packets, "profile_packet")[0].one("trusted_packet_sequence_id")
        of_heap = [p for p in packets if p.one("trusted_packet_sequence_id") == heap]
        self.assertEqual([p.one("sequence_flags") for p in of_heap].count(1), 1)
        for kind in ("frames", "callstacks", "mappings", "function_names"):
            iids = [entry.one("iid") for p in of_heap for entry in p.all("interned_data", kind)]
            self.assertTrue(iids)
            self.assertEqual(len(iids), len(set(iids)), kind)

    def test_most_is_freed(self):
        """The functions that hold memory come first, then the functions that allocated most."""
        code = "b = [bytearray(100000) for _ in range(300)]; del b; keep = bytearray(3 << 20)"
        result = self.profile("python3", "-c", code, options=("-i", "64"))
        lines = result.stderr.splitlines()
        (at,) = [i for i, line in enumerate(lines)
                 if line.startswith("Allocated, most of it freed again")]
        self.assertRegex(lines[at + 2], r"^ +3\d{4}\.\d +3\d{4}\.\d  \S")
        self.assertNotIn("most of it freed", self.profile(TRUTH, "1", ROUNDS).stderr)

    def test_the_moment_of_the_peak(self):
        result = self.profile(TRUTH, "1", ROUNDS, options=("--dump-at-max", "-i", "1"))
        self.assertRegex(result.stderr,
                         r"At its largest: \d+\.\d kB in all\n +self kB  with called  function\n")
        rows = {name: allocated for name, allocated, _ in self.query(BY_FUNCTION)}
        self.assertEqual(rows["keep_small"], 100 * ROUNDS)
        self.assertLessEqual(rows.get("drop_small", 0), 300)


class Names(Heap):
    @needs_namespaces
    def test_symbols_of_a_debug_file(self):
        """A stripped program whose symbols are in /usr/lib/debug, as distributions have them."""
        source, program, debug = (self.dir / name for name in ("stripped.c", "stripped", "symbols"))
        source.write_text(
            "#include <stdlib.h>\n__attribute__((noinline)) static void *hidden(void) { return "
            "calloc(1, 5000); }\n"
            "int main(void) { void *volatile p = 0; for (int i = 0; i < 100; i++) p = hidden(); "
            "return !p; }\n"
        )
        for argv in (("cc", "-O1", "-Wl,--build-id=0x00abcdef", source, "-o", program),
                     ("objcopy", "--only-keep-debug", program, debug), ("strip", program)):
            self.assertEqual(run(*argv).returncode, 0)
        script = (
            "mount -t tmpfs none /usr/lib/debug && mkdir -p /usr/lib/debug/.build-id/00 &&"
            f" cp {debug} /usr/lib/debug/.build-id/00/abcdef.debug && exec \"$@\""
        )
        command = (MMTRACE, "heap", "-o", self.trace, "--", program)
        self.assertNotIn("hidden", run(*command).stderr)
        if not pathlib.Path("/usr/lib/debug").is_dir():
            self.skipTest("there is no /usr/lib/debug to mount over")
        self.assertIn(" hidden (stripped)",
                      run("unshare", "-m", "sh", "-c", script, "sh", *command).stderr)


class Allocator(Heap):
    """The C library's own figures of its memory."""

    def test_what_is_free_and_what_has_its_own_mapping(self):
        code = (
            "import ctypes, threading\n"
            "libc = ctypes.CDLL(None)\n"
            "libc.malloc.restype = ctypes.c_void_p\n"
            "libc.free.argtypes = [ctypes.c_void_p]\n"
            "large = libc.malloc(40 << 20)\n"
            "pieces = [libc.malloc(5000) for _ in range(8000)]\n"
            "[libc.free(p) for p in pieces[::2]]\n"
            "threading.Thread(target=lambda: libc.malloc(100)).start()\n"
        )
        self.profile("python3", "-c", code)
        rows = self.query(
            "select arena, system_bytes, free_bytes, mapped_chunks from malloc_arena order by ts, "
            "id")
        (main,) = [r for r in rows[-3:] if r[0] == 0]
        mapped = rows[-1]
        # 20 MB of holes: the memory is free but does not go back to the system.
        self.assertGreater(main[2], 19 << 20)
        self.assertGreater(main[1] - main[2], 19 << 20)
        self.assertLess(main[2], 40 << 20)
        self.assertIsNone(mapped[0])
        self.assertGreaterEqual(mapped[1], 40 << 20)
        self.assertGreaterEqual(mapped[3], 1)
        self.assertIn(1, [r[0] for r in rows], "the thread has an arena of its own")


class FullRing(Heap):
    def test_what_does_not_fit_is_counted(self):
        options = ("--shmem-size", "8192", "--no-block-client", "-i", "1")
        result = self.profile(TRUTH, "2", ROUNDS, options=options)
        self.assertIn("samples are lost", result.stderr)
        self.assertGreater(self.stat("heapprofd_buffer_overran"), 0)

    def test_the_samples_that_come_through_stand_for_those_that_do_not(self):
        rounds = 20 * ROUNDS
        self.profile(TRUTH, "2", rounds,
                     options=("--shmem-size", "65536", "--no-block-client", "-i", "64"))
        self.assertGreater(self.stat("mmsql_heap_lost_allocations"), 1000)
        real = sum(bytes_ * 40 for bytes_, _ in ALLOCATED.values())
        lost, uncounted = self.stat("mmsql_heap_lost_bytes"), self.stat(
            "mmsql_heap_uncounted_bytes")
        self.assertGreater(lost, real / 20)
        rows = {name: allocated for name, allocated, _ in self.query(BY_FUNCTION)}
        got = sum(rows[name] for name in ALLOCATED)
        self.assertLess(abs(got + uncounted - real), real / 50,
                        f"{got} and {uncounted} instead of {real}")
        for name in ("keep_small", "drop_small", "grow"):
            share = (rows[name] / got) / (ALLOCATED[name][0] * 40 / real)
            self.assertTrue(0.7 < share < 1.4, f"{name}: {share} of its share")

    def test_a_client_that_waits_loses_nothing(self):
        self.profile(TRUTH, "2", 2000, options=("--shmem-size", "65536", "-i", "1"), timeout_s=120)
        rows = {name: allocated for name, allocated, _ in self.query(BY_FUNCTION)}
        self.assertEqual(rows["keep_small"], 100 * 2000 * 2)
        self.assertEqual(self.stat("heapprofd_buffer_overran"), 0)

    def test_a_recorder_that_dies_lets_its_program_go_on(self):
        command = [str(MMTRACE), "heap", "-o", str(self.trace), "-i", "1", "--shmem-size", "65536",
                   "--"]
        script = f"echo $$ > {self.dir}/pid; exec {TRUTH} 1 500000"
        with lib.Popen(command + ["sh", "-c", script], stderr=subprocess.DEVNULL) as recorder:
            wait_for(lambda: (self.dir / "pid").exists() and (self.dir / "pid").read_text().strip(),
                     "the program")
            pid = int((self.dir / "pid").read_text())
            recorder.kill()
        try:
            wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the program", 300)
        except AssertionError:
            os.kill(pid, 9)
            raise


LOADS_RELATIVE = """
#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>
int main(void)
{
    void *library = dlopen("./a b/library.so", RTLD_NOW);
    void (*work)(void) = (void (*)(void))dlsym(library, "library_work");
    if (chdir("/") < 0)
        return 1;
    for (int i = 0; i < 1000; i++)
        work();
    return 0;
}
"""
RELATIVE = "#include <stdlib.h>\nvoid *kept; void library_work(void) { kept = malloc(1000); }\n"


class Paths(Heap):
    def test_a_library_that_was_loaded_by_a_relative_path_has_names(self):
        folder = self.dir / "a b"
        folder.mkdir()
        (folder / "library.c").write_text(RELATIVE)
        (self.dir / "loads.c").write_text(LOADS_RELATIVE)
        for argv in (("-shared", "-fPIC", "-o", folder / "library.so", folder / "library.c"),
                     ("-o", self.dir / "loads", self.dir / "loads.c", "-ldl")):
            done = run("cc", "-g", *argv)
            self.assertEqual(done.returncode, 0, done.stderr)
        done = run(MMTRACE, "heap", "-o", self.trace, "-i", "1", "--", "./loads", cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("library_work (library.so)", done.stderr)
        mapped = "select distinct name from stack_profile_mapping where name like '%/library.so'"
        self.assertEqual(self.query(mapped), [(str((folder / "library.so").resolve()),)])


class RealPrograms(Heap):
    """Nothing that a program prints may change."""

    def needs(self, program):
        if not shutil.which(program):
            self.skipTest(f"{program} is not installed")

    def test_program_at_a_fixed_address(self):
        self.check_unchanged(BUILD / "tests" / "tools" / "fixed_address")

    def test_python(self):
        code = (
            "import json, sqlite3, ssl, threading, ctypes\n"
            "def work(n): return len(json.dumps([{'a': i, 'b': str(i) * 9} for i in range(n)]))\n"
            "ts = [threading.Thread(target=work, args=(2000,)) for _ in range(8)]\n"
            "[t.start() for t in ts]; [t.join() for t in ts]; print(work(5000))\n"
        )
        self.check_unchanged("python3", "-c", code)

    def test_the_environment(self):
        """The library starts before the C library is ready, and the environment is still whole
        afterwards."""
        code = ("import os; print(sorted(k + v for k, v in os.environ.items() if k not in "
                "('LD_PRELOAD', 'MMTRACE_HEAP_SOCKET')))")
        self.check_unchanged("python3", "-c", code, env={**os.environ, "ONE": "1", "TWO": "2"})

    def test_sqlite(self):
        self.needs("sqlite3")
        sql = (
            "create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c "
            "where x < 50000)"
            " insert into t select x, x * 7919 % 100003 from c; create index i on t(b); "
            "select count(*), sum(b) from t;"
        )
        self.check_unchanged("sqlite3", ":memory:", sql)

    def test_xz_with_threads(self):
        self.needs("xz")
        file = self.dir / "data"
        file.write_bytes(os.urandom(1 << 20) * 4)
        self.check_unchanged("xz", "-T4", "-0", "-c", str(file), text=False, options=("-q",))

    def test_a_shell_and_what_it_starts(self):
        script = "for i in 1 2 3 4 5; do ls / | wc -l; (echo sub); done; exec echo end"
        self.check_unchanged("sh", "-c", script)

    def test_a_process_has_the_name_of_its_last_program(self):
        code = "import os; kept = [bytes(10000) for _ in range(500)]; os._exit(0)"
        self.profile("/bin/sh", "-c", f"exec env /usr/bin/python3 -c '{code}'")
        rows = self.query("SELECT p.name, sum(a.size) FROM heap_profile_allocation a "
                          "JOIN process p USING (upid) GROUP BY upid")
        self.assertEqual([name for name, size in rows if size > 3e6], ["/usr/bin/python3"])

    def test_libraries_that_come_and_go(self):
        code = (
            "import ctypes, _ctypes\n"
            "for i in range(300):\n"
            "    lib = ctypes.CDLL('liblzma.so.5'); lib.lzma_version_number(); "
            "_ctypes.dlclose(lib._handle)\n"
            "print(lib.lzma_version_number)\n".replace("print(lib.lzma_version_number)",
                                                       "print('ok')")
        )
        self.check_unchanged("python3", "-c", code)

    def test_a_program_that_is_killed(self):
        result = run(MMTRACE, "heap", "-o", self.trace, "--", "sh", "-c",
                     f"{TRUTH} 1 100000; kill -9 $$")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("was ended by signal 9", result.stderr)
        rows = {name for name, _, _ in self.query(BY_FUNCTION)}
        self.assertIn("keep_small", rows)

    def test_programs_that_are_killed_at_any_moment(self):
        """The last program is killed after a second of processor time: on a busy machine, the
        others may have allocated nothing."""
        script = (
            f"for i in 1 2 3 4 5 6 7 8 9 10; do timeout -s KILL 0.0$i {TRUTH} 4 5000000; done; "
            f"(ulimit -t 1; exec {TRUTH} 4 500000000); true")
        self.profile("sh", "-c", script, options=("-i", "64"))
        rows = {name: allocated for name, allocated, _ in self.query(BY_FUNCTION)}
        self.assertGreater(rows["keep_small"], 0)
        self.assertEqual(self.stat("heapprofd_buffer_corrupted"), 0)

    def test_a_program_that_is_not_there(self):
        result = run(MMTRACE, "heap", "-o", self.trace, "--", "/nonexistent/program")
        self.assertIn("No such file", result.stderr)
        self.assertEqual(result.returncode, 1)


# Works until its standard input ends.
WORK = """
import sys, threading, time
ended = []
def work():
    keep = []
    while not ended:
        keep.append(bytes(2000))
        if len(keep) == 20000:
            keep.clear()
        if len(keep) % 1000 == 0:
            time.sleep(0.005)
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]
sys.stdin.read()
ended.append(True)
[t.join() for t in threads]
print("as ever")
"""


@needs_helper
class Attach(Heap):
    """Attaches to processes that were not prepared."""

    def start(self, *argv):
        process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        for file in (process.stderr, process.stdout, process.stdin):
            self.addCleanup(file.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_work(self, *wrapper):
        """A program that works until its input ends; its threads run when this returns."""
        process = self.start(*wrapper, "python3", "-c", WORK)
        states.wait_for_text(process.pid, "comm", "python3")
        wait_for(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 4, "its threads")
        return process

    def start_sleep(self, seconds):
        process = self.start("sleep", seconds)
        states.wait_for_program(process.pid, "sleep")
        return process

    def end_work(self, process):
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out, err), (0, "as ever\n", ""))

    def open_things(self, pid):
        proc = pathlib.Path(f"/proc/{pid}")
        return (
            len(list((proc / "fd").iterdir())),
            len(list((proc / "task").iterdir())),
            sum("mmheap" in line for line in (proc / "maps").read_text().splitlines()),
        )

    def test_a_busy_program_again_and_again(self):
        process = self.start_work()
        seen = []
        for _ in range(6):
            result = self.attach(process.pid)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("_PyEval_EvalFrameDefault", result.stderr)
            seen.append(self.open_things(process.pid))
        self.end_work(process)
        # A mapping may be split and merged again. If each attach left a mapping, six would be left.
        for counts, slack in zip(zip(*seen), (0, 0, 1)):
            self.assertLessEqual(max(counts) - min(counts), slack,
                                 f"fds, threads, mappings after each: {seen}")

    def test_threads_that_do_nothing_but_allocate(self):
        process = self.start(TRUTH, "4", "2000000")
        states.wait_for_program(process.pid, "heap_truth", "RSD")
        self.attach_to_truth(process, 3)

    def test_a_sleeper_sleeps_on(self):
        """The system call of the thread goes on to its normal end."""
        for seconds in (2, 8, 32):  # on a busy machine, an attachment can take longer than a sleep
            began = time.monotonic()
            process = self.start_sleep(str(seconds))
            results = [self.attach(process.pid, 0)]
            wait_for(lambda: time.monotonic() - began > 0.6 * seconds, "half of it")
            results.append(self.attach(process.pid, 0))
            code, lasted = process.wait(60), time.monotonic() - began
            codes = [result.returncode for result in results]
            if codes == [0, 0] and lasted < 1.5 * seconds:
                break
        self.assertEqual(codes, [0, 0], [result.stderr for result in results])
        self.assertEqual(code, 0)
        # A sleep that began again lasts 1.6 times as long.
        self.assertTrue(seconds <= lasted < 1.5 * seconds, lasted)

    def test_a_reader_reads_on(self):
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        states.wait_for_program(process.pid, "cat")
        self.assertEqual(self.attach(process.pid, 0).returncode, 0)
        self.assertEqual(process.communicate(b"through", timeout=60)[0], b"through")
        self.assertEqual(process.returncode, 0)

    def record(self, process, fields, until="", cpu_s=0, ms=60000):
        """Records until the recorder has said `until` and the process has then used so much CPU
        time; without both, for `ms`."""
        config = self.dir / "heap.cfg"
        config.write_text(
            f'buffers {{ size_kb: 8192 }} duration_ms: {ms} data_sources {{ config '
            f'{{ name: "linux.heap"'
            f" heapprofd_config {{ pid: {process.pid} {fields} }} }} }}"
        )
        argv = [str(a) for a in (MMTRACE, "record", "-c", config, "-o", self.trace)]
        with lib.Popen(argv, stderr=subprocess.PIPE, text=True) as recorder:
            said = self.until_said(recorder, until) if until else ""
            if cpu_s:
                states.wait_for_cpu(process.pid, cpu_s)
            if until:
                recorder.send_signal(signal.SIGINT)
            said += recorder.stderr.read()
        self.assertEqual(recorder.returncode, 0, said)
        return said

    def test_a_limit_for_the_recorder(self):
        process = self.start_work()
        self.record(process, "sampling_interval_bytes: 512 max_heapprofd_memory_kb: 1",
                    "the profile ends")
        self.assertGreater(self.stat("heapprofd_hit_guardrail"), 0)
        self.end_work(process)

    def test_sampling_adapts_itself(self):
        process = self.start(TRUTH, "2", "20000000")
        self.record(
            process,
            "sampling_interval_bytes: 64 shmem_size_bytes: 65536 "
            "adaptive_sampling_shmem_threshold: 49152"
            " adaptive_sampling_max_sampling_interval_bytes: 8192", "attached", 0.5
        )
        self.assertIn(self.stat("heapprofd_sampling_interval_adjusted"),
                      [64 * 2**n - 64 for n in range(1, 8)])

    def test_the_data_source_in_a_config(self):
        process = self.start_work()
        for ms in lib.longer(1500):
            self.record(process,
                        "sampling_interval_bytes: 4096 continuous_dump_config { dump_interval_ms: "
                        "300 }", ms=ms)
            (dumps,), = self.query("select count(distinct ts) from heap_profile_allocation")
            if dumps > 1:  # five dumps are due
                break
        self.assertGreater(dumps, 1)
        (mappings,), = self.query(
            "select count(*) from stack_profile_mapping where name like '%/libpython%' and "
            "build_id != ''"
            " or name like '%/python%' and build_id != ''"
        )
        self.assertGreater(mappings, 0)
        self.end_work(process)

    def test_by_name_also_later(self):
        name = self.dir / f"victim_of_{os.getpid()}"
        shutil.copy(TRUTH, name)
        command = [str(MMTRACE), "heap", "-o", str(self.trace), "-n", f"victim_of_{os.getpid()}*"]
        # other tests may have the default socket
        env = {**os.environ, "MMTRACE_HEAP_SOCKET": str(self.dir / "heap.sock")}
        with lib.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as recorder:
            states.wait_for_recorder(recorder.pid)
            states.wait_for_loop(recorder.pid)
            process = self.start(name, "1", "20000000")
            self.assertIn("waits for programs", err := recorder.stderr.readline())
            err += recorder.stderr.readline()
            self.assertIn(f"process {process.pid}: attached", err)
            states.wait_for_cpu(process.pid)
            recorder.send_signal(signal.SIGINT)
            err += recorder.communicate(timeout=60)[1]
        self.assertEqual(recorder.returncode, 0, err)
        self.assertIn("keep_small", err)
        process.kill()

    @needs_namespaces
    def test_another_mount_namespace(self):
        """The process cannot see the library in its own root: the process gets a copy."""
        lib.skip_in_chroot(self)
        hide = f'mount -t tmpfs none {LIBRARY.parent} && exec "$@"'
        process = self.start_work("unshare", "-m", "sh", "-c", hide, "sh")
        for _ in range(2):
            result = self.attach(process.pid)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("_PyEval_EvalFrameDefault", result.stderr)
        self.end_work(process)

    def test_two_recorders(self):
        process = self.start_work()
        self.check_two_recorders(process, "attached")
        self.end_work(process)

    def check_refused(self, process, text):
        result = self.attach(process.pid)
        self.assertEqual(result.returncode, 1)
        self.assertIn(text, result.stderr)
        self.assertIsNone(process.poll())

    def test_a_stopped_process_is_left_alone(self):
        process = self.start_sleep("300")
        process.send_signal(signal.SIGSTOP)
        states.wait_for_state(process.pid, "T")
        self.check_refused(process, "it is stopped")
        self.assertEqual(self.stat("heapprofd_rejected_concurrent"), 1)
        self.assertIn("State:\tT", pathlib.Path(f"/proc/{process.pid}/status").read_text())
        process.send_signal(signal.SIGCONT)

    def test_a_static_program_is_left_alone(self):
        source, program = self.dir / "static.c", self.dir / "static"
        source.write_text("#include <unistd.h>\nint main(void) { sleep(300); }\n")
        if run("cc", "-static", "-o", program, source).returncode != 0:
            self.skipTest("no static C library")
        process = self.start(program)
        states.wait_for_program(process.pid, "static")
        self.check_refused(process, "static")

    def hold(self, pid):
        """Traces the process. Returns a function that ends this."""
        libc = ctypes.CDLL(None, use_errno=True)
        PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
        if libc.ptrace(PTRACE_SEIZE, pid, None, None) != 0:
            self.skipTest("ptrace is not allowed here")

        def end():
            self.assertEqual(libc.ptrace(PTRACE_INTERRUPT, pid, None, None), 0)
            os.waitpid(pid, WALL)
            self.assertEqual(libc.ptrace(PTRACE_DETACH, pid, None, None), 0)
        return end

    def test_a_process_that_a_debugger_has_is_left_alone(self):
        process = self.start_sleep("300")
        self.hold(process.pid)
        self.check_refused(process, "a debugger traces it")

    def test_another_recorder_traces_the_process(self):
        process = self.start_sleep("300")
        end = self.hold(process.pid)
        recorder = subprocess.Popen([MMTRACE, "heap", "-o", str(self.trace), "-d", "100",
                                     "-p", str(process.pid)], stderr=subprocess.PIPE, text=True)
        self.addCleanup(recorder.kill)
        wait_for(lambda: "mmheap-attach" in states.names_of_children(recorder.pid), "the helper")
        end()
        self.assertEqual(recorder.communicate(timeout=60)[1].count("a debugger traces it"), 0)
        self.assertEqual(recorder.returncode, 0)

    def test_a_process_that_ended(self):
        process = self.start("true")
        wait_for(lambda: states.proc_text(process.pid, "stat").rpartition(")")[2].split()[0] == "Z",
                 "its end")
        command = (MMTRACE, "heap", "-o", self.trace, "-d", "200", "-p", process.pid)
        self.assertEqual(run(*command).returncode, 1)  # a zombie
        process.wait()
        self.assertEqual(run(*command).returncode, 1)

    def test_a_recording_ends_with_its_last_process(self):
        first, second = self.start_sleep("0.5"), self.start_sleep("1.5")
        done = run(MMTRACE, "heap", "-o", self.trace, "-p", f"{first.pid},{second.pid}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((first.wait(), second.wait()), (0, 0))

    def test_an_older_profile_stays_if_nothing_was_profiled(self):
        process = self.start_sleep("300")
        self.assertEqual(self.attach(process.pid, 0).returncode, 0)
        older = self.trace.read_bytes()
        process.send_signal(signal.SIGSTOP)
        states.wait_for_state(process.pid, "T")
        for argv in (("-p", process.pid), ("-p", 2), ("-p", 2**22),
                     ("-n", "no such name", "-d", 200)):
            done = run(MMTRACE, "heap", "-o", self.trace, *argv)
            self.assertEqual(done.returncode, 1, (argv, done.stderr))
            self.assertEqual(self.trace.read_bytes(), older)
        self.assertIn("stays as it was", done.stderr)
        self.assertEqual(list(self.dir.glob("*.part")), [])
        process.send_signal(signal.SIGCONT)
        self.assertEqual(self.attach(process.pid, 0).returncode, 0)
        self.assertNotEqual(self.trace.read_bytes(), older)

    def test_processes_that_end_meanwhile(self):
        for i in range(6):
            process = self.start("sleep", f"0.0{3 + i}")
            run(MMTRACE, "heap", "-o", self.trace, "-d", "100", "-p", process.pid)
            self.assertEqual(process.wait(60), 0)


class CommandLine(Heap):
    def test_mistakes(self):
        for argv, text in (
            ((), "nothing to profile"),
            (("--pid", "x"), "not a process id"),
            (("--interval", "0", "--pid", "1"), "not a size"),
            (("--heaps", "a" * 64, "--", "true"), "has 1 to 63 characters"),
            (("--shmem-size", "5000", "--", "true"), "power of two"),
            (("--pid", "1", "--", "true"), "either"),
        ):
            result = run(MMTRACE, "heap", "-o", self.trace, *argv)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(text, result.stderr)
            self.assertFalse(self.trace.exists())

    def test_options_of_heap_profile(self):
        same = run(MMTRACE, "heap", "--print-config", "-n", "a").stdout
        more = run(MMTRACE, "heap", "--print-config", "-n", "a", "--output", self.trace,
                   "--no-start",
                   "--disable-fork-teardown", "--no-annotations", "-c", "0", "-d", "0")
        self.assertEqual((more.returncode, more.stdout), (0, same), more.stderr)
        self.assertNotIn("no_startup", same)
        run(MMTRACE, "heap", "-q", "--output", self.trace, "--", TRUTH)
        self.assertTrue(self.trace.exists())
        self.assertIn("is not recorded",
                      run(MMTRACE, "heap", "--idle-allocations", "-n", "a").stderr)

    def test_print_config(self):
        result = run(MMTRACE, "heap", "--print-config", "-i", "77", "-c", "500", "-n", "a,b", "-p",
                     "5,6")
        self.assertEqual(result.returncode, 0, result.stderr)
        for text in ("sampling_interval_bytes: 77", "dump_interval_ms: 500", 'process_cmdline: "b"',
                     "pid: 6"):
            self.assertIn(text, result.stdout)


if __name__ == "__main__":
    unittest.main()
