# SPDX-License-Identifier: Apache-2.0
"""Samples of call stacks by the kernel's perf events: their shares are equal to the shares that a
program measures itself, and page faults and reclaim have the stacks of the threads that caused
them."""
import collections
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import tempfile
import unittest

import lib
import load
import states
from lib import BUILD, MMSQL, MMTRACE, needs_root, needs_tracefs, run

TRUTH = BUILD / "tests" / "tools" / "stack_truth"

UNWINDER = BUILD / "producer" / "agents" / "heap" / "mmunwind"
NO_UNWINDER = ("mmunwind is not in this build: needs x86-64 and libunwind, which "
               "scripts/install-deps installs, and a new configuration")
DEEP = r"""
#include <time.h>
static volatile unsigned sum;
#define KEPT __attribute__((noinline)) static unsigned
KEPT deep_12(void)
{
    for (clock_t begin = clock(); clock() - begin < CLOCKS_PER_SEC / 2;)
        for (unsigned i = 0; i < 1000000; i++)
            sum += i;
    return sum;
}
#define CALL(name, next, size)                                                                     \
    KEPT name(void)                                                                                \
    {                                                                                              \
        volatile char room[size];                                                                  \
        room[0] = 1;                                                                               \
        return next() + (unsigned)room[0];                                                         \
    }
%s
int main(void)
{
    return deep_01() == 1;
}
"""

# push rbp; mov rbp,rsi; loop: dec rdi; jnz loop; pop rbp; ret. The second argument is a wrong frame
# pointer, or none.
MADE = r"""
#include <string.h>
#include <sys/mman.h>
#ifdef IN_FILE
__attribute__((section(".text#")))
#endif
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xf5, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x5d,
                                     0xc3};
#ifdef JVM
void jvm(void);
#else
static void jvm(void) {}
#endif
int main(void)
{
    void *made = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                      0);
    memcpy(made, code, sizeof(code));
    void *wrong[] = {0, (char *)made + 100};
    jvm();
#ifdef IN_FILE
    ((void (*)(unsigned long, void *))code)(1000000000, wrong);
#else
    ((void (*)(unsigned long, void *))made)(1000000000, 0);
#endif
    return 0;
}
"""

BY_LEAF = """
select f.name, count(*) from perf_sample s
join stack_profile_callsite c on c.id = s.callsite_id
join stack_profile_frame f on f.id = c.frame_id group by 1
"""


def rows(trace, sql, *options):
    answer = run(MMSQL, "query", "--json-lines", *options, trace, sql)
    assert answer.returncode == 0, answer.stderr
    return [list(json.loads(line).values()) for line in answer.stdout.splitlines()]


def folded(trace, *options):
    """The stacks of a flame graph with their weights."""
    answer = run(MMSQL, "flamegraph", "--folded", *options, trace)
    assert answer.returncode == 0, answer.stderr
    stacks = collections.Counter()
    for line in answer.stdout.splitlines():
        stack, weight = line.rsplit(" ", 1)
        stacks[stack] += int(weight)
    return stacks


def has_events(pid):
    """Whether a recorder has opened its perf events."""
    try:
        folder = f"/proc/{pid}/fd"
        return any("[perf_event]" in os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder))
    except OSError:
        return False


def with_function(stacks, name):
    return sum(n for stack, n in stacks.items() if name in stack.split(";"))


@needs_root
class Stacks(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="mmtrace-stacks-"))
        self.trace = pathlib.Path(self.folder, "t.pftrace")

    def record(self, verb, *arguments):
        answer = run(MMTRACE, verb, "-o", self.trace, *arguments, timeout_s=120)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer

    def record_until(self, pid, cpu_s, *argv):
        """Records until the process has used so much CPU time."""
        with lib.Popen([str(arg) for arg in (MMTRACE, *argv, "-o", self.trace)],
                       stderr=subprocess.PIPE, text=True) as recorder:
            lib.wait_for(lambda: has_events(recorder.pid) or recorder.poll() is not None,
                         "the recorder has its events")
            states.wait_for_cpu(pid, cpu_s)
            recorder.send_signal(signal.SIGINT)
            said = recorder.communicate(timeout=60)[1]
        self.assertEqual(recorder.returncode, 0, said)

    def test_shares_of_cpu_time_are_those_that_the_program_measures(self):
        answer = self.record("cpu", "-F", "1000", "--", TRUTH, "burn", "1.5")
        used = {name: float(value) for name, value in map(str.split, answer.stdout.splitlines())}
        stacks = folded(self.trace, "--of", "cpu")
        whole = sum(stacks.values())
        self.assertGreater(whole, 200)
        for name, seconds in used.items():
            share = seconds / sum(used.values())
            # Four standard deviations, and time of the kernel inside of the functions.
            error = 4 * (share * (1 - share) / whole) ** 0.5 + 0.03
            self.assertAlmostEqual(with_function(stacks, name) / whole, share, delta=error)
            self.assertIn(f"{name} (stack_truth)", answer.stderr)
        self.assertTrue(any(stack.startswith("__libc_start_call_main;main;burn;burn_hot")
                            or ";burn_hot" in stack for stack in stacks), stacks)
        self.assertEqual(rows(self.trace, "select distinct p.name like '%stack_truth' from "
                                          "perf_sample join thread using (utid) join process p "
                                          "using (upid)"), [[1]])

    def build(self, text, *options):
        """Builds a program without frame pointers."""
        source, program = pathlib.Path(self.folder, "deep.c"), pathlib.Path(self.folder, "deep")
        source.write_text(text)
        built = run("cc", "-O2", "-fomit-frame-pointer", "-o", program, source, *options)
        self.assertEqual(built.returncode, 0, built.stderr)
        return program

    @lib.needs_program("cc")
    @unittest.skipUnless(UNWINDER.exists(), NO_UNWINDER)
    def test_stacks_without_frame_pointers(self):
        calls = "\n".join(
            f"CALL(deep_{i:02}, deep_{i + 1:02}, {8 * i})" for i in range(11, 0, -1))
        program = self.build(DEEP % calls)
        chain = ";".join(f"deep_{i:02}" for i in range(1, 13))
        for how, is_whole in (("dwarf", True), ("fp", False)):
            self.record("cpu", "--call-graph", how, "-F", "200", "--", program)
            stacks = folded(self.trace, "--of", "cpu")
            self.assertGreater(with_function(stacks, "deep_12"), 0, stacks)
            self.assertEqual(any(f"main;{chain}" in stack for stack in stacks), is_whole, stacks)

    @lib.needs_program("cc")
    @unittest.skipUnless(platform.machine() == "x86_64", "the code is of x86-64")
    def test_stacks_that_are_cut(self):
        """The program runs code without frame pointers that is made at run time, or is in its file.
        It has libjvm.so or not."""
        library = pathlib.Path(self.folder, "libjvm.so")
        built = run("cc", "-shared", "-fPIC", "-o", library, "-x", "c", "-",
                    input="static volatile unsigned n;\nvoid jvm(void)\n"
                          "{ for (unsigned i = 0; i < 100000000; i++) n += i; }\n")
        self.assertEqual(built.returncode, 0, built.stderr)
        for options, flag in (
                (("-DIN_FILE",), "--call-graph dwarf needs none"),
                ((), "made at run time without frame pointers (run a JVM with -XX:"),
                (("-DJVM", library), "run the JVM with -XX:+PreserveFramePointer")):
            answer = self.record("cpu", "-F", "500", "--", self.build(MADE, *options))
            self.assertIn(" are cut: ", answer.stderr)
            self.assertIn(flag, answer.stderr)
            errors = dict(rows(self.trace, "select coalesce(unwind_error, ''), count(*) from "
                                           "perf_sample group by 1"))
            self.assertGreater(errors.get("unwind_info", 0), 0, errors)

    @lib.needs_program("cc")
    @unittest.skipUnless(UNWINDER.exists(), NO_UNWINDER)
    def test_tables_without_end(self):
        """The rule of a frame is an expression that jumps back to its beginning."""
        program = self.build(DEEP.replace("CLOCKS_PER_SEC / 2", "CLOCKS_PER_SEC").replace(
            "    for (clock_t", '    __asm__ volatile(".cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff");\n'
            "    for (clock_t").replace("deep_01()", "deep_12()") % "")
        answer = self.record("cpu", "--call-graph", "dwarf", "--", program)
        self.assertIn("the unwinder has failed at a stack of user 0", answer.stderr)
        self.assertGreater(with_function(folded(self.trace, "--of", "cpu"), "deep_12"), 0)

    @unittest.skipUnless(UNWINDER.exists(), NO_UNWINDER)
    def test_an_unwinder_that_ends(self):
        with lib.Popen([TRUTH, "burn", "30"]) as program, lib.Popen(
                [MMTRACE, "cpu", "--call-graph", "dwarf", "-p", str(program.pid), "-o", self.trace],
                stderr=subprocess.PIPE, text=True) as recorder:
            def unwinder():
                children = " ".join(states.texts_of_tasks(recorder.pid, "children")).split()
                return [int(child) for child in children
                        if states.proc_text(child, "comm") == "mmunwind\n"]
            lib.wait_for(lambda: has_events(recorder.pid) and unwinder(), "the unwinder runs")
            child, = unwinder()
            lib.wait_for(lambda: "Seccomp:\t2" in states.proc_text(child, "status"), "its sandbox")
            os.kill(child, signal.SIGKILL)
            states.wait_for_cpu(program.pid, 0.3)
            recorder.send_signal(signal.SIGINT)
            said = recorder.communicate(timeout=60)[1]
            program.kill()
        self.assertEqual(recorder.returncode, 0, said)
        self.assertIn("the unwinder has failed", said)
        self.assertGreater(with_function(folded(self.trace), "burn_hot"), 0)

    def test_a_running_process_is_sampled_alone(self):
        with lib.Popen([TRUTH, "burn", "30"]) as program, lib.Popen([TRUTH, "burn", "30"]) as other:
            self.record_until(program.pid, 0.3, "cpu", "-F", "1000", "-p", program.pid)
            program.kill()
            other.kill()
        self.assertEqual(rows(self.trace, "select distinct pid from perf_sample join thread using "
                                          "(utid) join process using (upid)"), [[program.pid]])
        self.assertGreater(with_function(folded(self.trace), "burn_hot"), 0)

    def names_of_brief_programs(self, run):
        """The names of the processes that burned time: a set. `run`, a command of the shell, runs
        the program once. The folder is closed to others: files are read with the
        rights of the programs."""
        program = shutil.copy(TRUTH, pathlib.Path(self.folder, "brief_truth"))
        runs = f"i=0; while [ $i -lt 20 ]; do {run.format(program)}; i=$((i+1)); done"
        self.record("cpu", "-F", "1000", "--", "sh", "-c", runs)
        names = rows(self.trace, """
            select distinct p.name from perf_sample s
            join thread using (utid) join process p using (upid)
            join stack_profile_callsite c on c.id = s.callsite_id
            join stack_profile_frame f on f.id = c.frame_id where f.name like 'burn%'""")
        return {pathlib.Path(name or "").name for name, in names}

    def test_programs_that_end_at_once_have_their_names(self):
        self.assertEqual(self.names_of_brief_programs("{} burn 0.005"), {"brief_truth"})
        stacks = folded(self.trace, "--of", "cpu")
        self.assertGreater(with_function(stacks, "burn_hot"), 0, stacks)
        self.assertEqual(with_function(stacks, "[brief_truth]"), 0, stacks)

    def test_processes_that_were_another_program_have_their_last_name(self):
        """The shell's child is looked up before it executes the program."""
        busy = "n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done"
        self.assertEqual(self.names_of_brief_programs(f"({busy}; exec {{}} burn 0.005)"),
                         {"brief_truth"})

    def test_a_process_that_is_not_there_is_refused(self):
        self.trace.write_bytes(b"older")
        answer = run(MMTRACE, "cpu", "-o", self.trace, "-p", 2 ** 22 + 1)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("there is no such process", answer.stderr)
        self.assertEqual(self.trace.read_bytes(), b"older")

    def test_pages_that_are_touched_have_their_faults(self):
        """One sample for 100 faults: the kernel throttles events with more samples in a tick than
        kernel.perf_event_max_sample_rate permits."""
        self.record("faults", "--no-reclaim", "--", TRUTH, "touch", "20000")
        n = with_function(folded(self.trace, "--of", "faults"), "touch_pages")
        self.assertAlmostEqual(n, 200, delta=6)
        lost = rows(self.trace, "select value from stats where name = 'perf_cpu_lost_records'")
        self.assertEqual(sum(value for value, in lost), 0)

    @needs_tracefs
    @lib.needs_program("strace")
    def test_no_event_is_refused_before_it_is_opened(self):
        """A refused tracepoint costs as much time as an event."""
        calls = pathlib.Path(self.folder, "calls")
        answer = run("strace", "-f", "-o", calls, "-e", "trace=perf_event_open", MMTRACE, "faults",
                     "-o", self.trace, "--", TRUTH, "touch", "20000")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        opened = [line for line in calls.read_text().splitlines() if "perf_event_open(" in line]
        self.assertGreater(len(opened), 4, opened)
        self.assertEqual([line for line in opened if "EINVAL" in line], [])

    @needs_tracefs
    def test_reclaim_has_the_stack_of_who_made_it(self):
        size = 192 << 20
        try:
            group = load.make_group(64 << 20)
        except OSError as error:
            self.skipTest(str(error))
        self.addCleanup(lib.wait_for, lambda: load.remove_group(group), "the cgroup is removed")
        path = pathlib.Path(self.folder, "sparse")
        with open(path, "wb") as file:
            os.truncate(file.fileno(), size)
        self.record("faults", "--", TRUTH, "read", path, group)
        stacks = folded(self.trace, "--of", "reclaim")
        # The C library's read() has no frame pointer: its caller read_all() is passed over.
        self.assertGreater(with_function(stacks, "read_in_group"), 0, stacks)
        self.assertTrue(any("try_to_free_mem_cgroup_pages" in stack for stack in stacks), stacks)
        kinds = rows(self.trace, "select distinct name from perf_counter_track order by 1")
        self.assertIn(["vmscan:mm_vmscan_memcg_reclaim_begin"], kinds)

    def test_a_config_of_perfetto_samples_all_processes(self):
        config = pathlib.Path(self.folder, "t.cfg")
        config.write_text("""
            buffers { size_kb: 16384 }
            data_sources { config { name: "linux.process_stats" } }
            data_sources { config { name: "linux.perf" perf_event_config {
                timebase { frequency: 200 counter: SW_CPU_CLOCK timestamp_clock:
                           PERF_CLOCK_BOOTTIME }
                followers { counter: SW_PAGE_FAULTS }
                callstack_sampling { kernel_frames: true user_frames: UNWIND_FRAME_POINTER } } } }
        """)
        with lib.Popen([TRUTH, "burn", "30"]) as program:
            self.record_until(program.pid, 0.3, "record", "--no-verdict", "--txt", "-c", config)
            program.kill()
        leaves = dict(rows(self.trace, BY_LEAF))
        self.assertGreater(leaves.get("burn_hot", 0), 0)
        tracks = rows(self.trace, "select distinct name, is_timebase from perf_counter_track order "
                                  "by 1")
        self.assertEqual(tracks, [["cpu-clock", 1], ["page-faults", 0]])
        # Each sample has its counters.
        self.assertEqual(rows(self.trace, "select count(*) - 2 * (select count(*) from perf_sample)"
                                          " from counter c join perf_counter_track t on t.id = "
                                          "c.track_id"), [[0]])

    def test_pprof_and_threads(self):
        self.record("cpu", "-F", "500", "--", TRUTH, "burn", "0.3")
        profile = pathlib.Path(self.folder, "t.pb.gz")
        answer = run(MMSQL, "pprof", "--of", "cpu", self.trace, "-o", profile)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertGreater(profile.stat().st_size, 100)
        threads = folded(self.trace, "--of", "cpu", "--by-thread")
        self.assertTrue(all("stack_truth" in stack.split(";")[0] for stack in threads), threads)
        answer = run(MMSQL, "flamegraph", "--of", "faults", self.trace)
        self.assertEqual((answer.returncode, answer.stderr),
                         (1, f"mmsql: {self.trace}: no samples that match\n"))

    def test_wrong_usage(self):
        for arguments, text in ((("cpu", "x"), "not an option"),
                                (("cpu", "-p", "1", "--", "true"), "either a program"),
                                (("faults", "-c", "0"), "--period")):
            answer = run(MMTRACE, *arguments)
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertIn(text, answer.stderr)


if __name__ == "__main__":
    unittest.main()
