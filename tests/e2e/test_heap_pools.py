# SPDX-License-Identifier: Apache-2.0
"""Heaps that programs have of their own (mmheap.h): the memory that a pool and two arenas hand out,
against known amounts."""
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import states
import lib
from lib import BUILD, MMTRACE, ROOT, run
from test_heap import Heap

AGENT = BUILD / "producer" / "agents" / "heap"
POOLS = BUILD / "tests" / "tools" / "heap_pools"
TRACE_PROCESSOR = os.environ.get("TRACE_PROCESSOR_SHELL") or shutil.which("trace_processor_shell")

# heap_pools in each round: heap, function that takes from the heap, bytes allocated and freed, size
# of one piece.
TRUTH = {
    ("truth.sessions", "keep_session"): (96, 0, 96),
    ("truth.sessions", "drop_session"): (96, 96, 96),
    ("truth.texts", "keep_text"): (40, 0, 40),
    ("truth.scratch", "drop_texts"): (21, 21, 70),
}

# By the function that called pool_take() or arena_take().
BY_CALLER = """
select a.heap_name, f.name, sum(max(a.size, 0)), -sum(min(a.size, 0))
from heap_profile_allocation a
join stack_profile_callsite c on c.id = a.callsite_id
join stack_profile_callsite up on up.id = c.parent_id
join stack_profile_frame f on f.id = up.frame_id
where a.heap_name != 'libc.malloc'
group by a.heap_name, f.name
"""

PROGRAM = """
#include <mmheap.h>
int main(void)
{
    static char memory[100];
    struct mmheap *heap = mmheap_register("a.pool", NULL, NULL);
    for (int i = 0; i < 100; i++)
        mmheap_report_alloc(heap, memory + i, 10);
    mmheap_report_free(heap, memory + 5);
    mmheap_report_free_range(heap, memory + 90, 10);
    return mmheap_interval(heap) == 0;
}
"""


class Base(Heap):
    def heaps(self):
        return {row[0]
                for row in self.query("select distinct heap_name from heap_profile_allocation")}

    def check(self, rounds, interval):
        rows = {(heap, name): found for heap, name, *found in self.query(BY_CALLER)}
        for key, (allocated, freed, size) in TRUTH.items():
            for what, got, real in zip(("allocated", "freed"), rows[key],
                                       (allocated * rounds, freed * rounds)):
                # The pool hands out one slot again and again, so one sample stands for many rounds.
                error = 0 if interval <= 1 or size >= interval * math.log(100) else 6 * math.sqrt(
                    real * interval)
                with self.subTest(key=key, what=what, interval=interval):
                    self.assertLessEqual(abs(got - real), error, f"{got} instead of {real}")


class Pools(Base):
    def test_every_allocation(self):
        result = self.profile(POOLS, 2, 3000, options=("--all-heaps", "-i", "1"))
        self.assertEqual(result.stdout, "1 0\n", "the program hears that its heap is recorded")
        self.check(6000, 1)
        self.assertIn("truth.sessions: Not freed: 562.5 kB in all, 1125.0 kB allocated",
                      result.stderr)
        self.assertIn("pool_take (heap_pools) [truth.sessions]", result.stderr)
        self.assertEqual(self.heaps(),
                         {"libc.malloc", "truth.sessions", "truth.texts", "truth.scratch"})

    def test_intervals(self):
        for interval in (64, 1024):
            self.profile(POOLS, 3, 40000, options=("--all-heaps", "-i", interval))
            self.check(120000, interval)

    def test_only_what_is_asked_for(self):
        result = self.profile(POOLS, options=("--heaps", "truth.texts,truth.nothing", "-i", "1"))
        self.assertEqual(result.stdout, "0 0\n")
        self.assertEqual(self.heaps(), {"truth.texts"})
        self.profile(POOLS)
        self.assertEqual(self.heaps(), {"libc.malloc"})

    def test_without_a_profile(self):
        self.assertEqual(run(POOLS).stdout, "0 0\n")

    def test_children_after_fork_have_no_part(self):
        source = self.dir / "forks.c"
        source.write_text(
            PROGRAM.replace("int main(",
                            "#include <unistd.h>\n#include <sys/wait.h>\nint main(").replace(
                                "    for (",
                                "    if (fork() == 0) {\n        for (int i = 0; i < 100; i++)\n"
                                "            mmheap_report_alloc(heap, memory + i, 1000);\n"
                                "        _exit(mmheap_interval(heap) != 0);\n    }\n    int "
                                "status;\n    wait(&status);\n"
                                "    if (status)\n        return 3;\n    for (", 1
                            )
        )
        self.build("cc", source)
        self.profile(self.dir / "program", options=("--heaps", "a.pool", "-i", "1"))
        self.assertEqual(self.query("select sum(max(size, 0)) from heap_profile_allocation"),
                         [(1000,)])

    def build(self, compiler, source, *options):
        result = run(
            compiler, *options, "-Wall", "-Wextra", "-Werror", "-I",
            ROOT / "producer" / "agents" / "heap" / "api",
            source, AGENT / "libmmheap.a", "-o", self.dir / "program",
        )
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_header_in_other_programs(self):
        cases = (
            ("cc", "c", ("-std=c99", "-pedantic", "-O2", "-Wl,--gc-sections")),
            ("cc", "c", ("-static-pie" if os.uname().machine == "x86_64" else "-pie", "-flto")),
            ("cc", "c", ("-Dfree(p)=mine(p)", "-Dalloc(n)=mine(n)")),
            ("c++", "cpp", ("-std=c++11", "-pedantic", "-no-pie")),
        )
        for compiler, suffix, options in cases:
            with self.subTest(compiler=compiler, options=options):
                source = self.dir / f"program.{suffix}"
                source.write_text(PROGRAM)
                self.build(compiler, source, *options)
                # a static program is not profiled, and runs as always
                if "-static-pie" in options:
                    self.assertEqual(run(self.dir / "program").returncode, 1)
                    continue
                self.profile(self.dir / "program", options=("--all-heaps", "-i", "1"))
                rows = self.query(
                    "select sum(max(size, 0)), -sum(min(size, 0)) from heap_profile_allocation"
                    " where heap_name = 'a.pool'"
                )
                self.assertEqual(rows, [(1000, 110)])

    def write(self, text):
        source = self.dir / "own.c"
        source.write_text(
            "#include <mmheap.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
            + text)
        self.build("cc", source)
        return self.dir / "program"

    def test_names_that_are_taken(self):
        program = self.write(
            "int main(void)\n{\n    static char p;\n"
            '    mmheap_report_alloc(mmheap_register("libc.malloc", NULL, NULL), &p, 1 << 30);\n'
            '    mmheap_report_alloc(mmheap_register("com.android.art", NULL, NULL), &p, '
            '1 << 30);\n'
            '    mmheap_report_alloc(mmheap_register("", NULL, NULL), &p, 1 << 30);\n    '
            'free(malloc(100000));\n}\n')
        self.profile(program, options=("--all-heaps", "-i", "1"))
        self.assertEqual(self.heaps(), {"libc.malloc"})
        (allocated,), = self.query("select sum(max(size, 0)) from heap_profile_allocation")
        self.assertTrue(100000 <= allocated < 1 << 30, allocated)

    def test_libraries_with_heaps_come_and_go_and_there_are_too_many(self):
        library = self.dir / "library.c"
        library.write_text(
            "#include <mmheap.h>\nvoid use(int n);\nvoid use(int n)\n{\n    static char "
            "memory[1000];\n"
            '    struct mmheap *heap = mmheap_register("of.library", NULL, NULL);\n    for (int i '
            '= 0; i < n; i++)\n'
            "        mmheap_report_alloc(heap, memory + i, 10);\n    "
            "mmheap_report_free_range(heap, memory, n / 2);\n}\n")
        result = run("cc", "-shared", "-fPIC", "-I", ROOT / "producer" / "agents" / "heap" / "api",
                     library,
                     AGENT / "libmmheap.a", "-o", self.dir / "library.so")
        self.assertEqual(result.returncode, 0, result.stderr)
        program = self.write(
            "#include <dlfcn.h>\nint main(int argc, char **argv)\n{\n    static char memory[100], "
            "name[16];\n"
            "    for (int round = 0; round < argc * 50; round++) {\n        void *handle = "
            "dlopen(argv[1], RTLD_NOW);\n"
            '        void (*use)(int) = handle ? (void (*)(int))dlsym(handle, "use") : NULL;\n'
            "        if (!use)\n            return 2;\n        use(100);\n        "
            "dlclose(handle);\n    }\n"
            '    for (int i = 0; i < 100; i++) {\n        snprintf(name, sizeof(name), "own.%d", '
            'i);\n'
            "        mmheap_report_alloc(mmheap_register(name, NULL, NULL), memory + i, 7);\n    "
            "}\n}\n")
        self.profile(program, self.dir / "library.so", options=("--all-heaps", "-i", "1"))
        (allocated, freed), = self.query(
            "select sum(max(size, 0)), -sum(min(size, 0)) from heap_profile_allocation"
            " where heap_name = 'of.library'")
        self.assertEqual(allocated, 100 * 100 * 10)
        # An address that is handed out again was freed unseen.
        self.assertIn(freed, range(allocated // 2, allocated - 499))
        self.assertEqual(self.heaps() - {"libc.malloc"},
                         {"of.library", *(f"own.{i}" for i in range(62))})

    def record(self, config, pid, cpu_s):
        """Records until the process has computed for so long with a profile."""
        argv = [str(a) for a in (MMTRACE, "record", "-c", config, "-o", self.trace)]
        with lib.Popen(argv, stderr=subprocess.PIPE, text=True) as recorder:
            said = self.until_said(recorder, "attached")
            states.wait_for_cpu(pid, cpu_s)
            recorder.send_signal(signal.SIGINT)
            said += recorder.stderr.read()
        self.assertEqual(recorder.returncode, 0, said)

    def test_an_interval_that_has_doubled_often(self):
        """Large allocations still have their share in the profile."""
        program = self.write(
            "int main(void)\n{\n    static char p;\n"
            '    struct mmheap *heap = mmheap_register("a.pool", NULL, NULL);\n    puts("ready");\n'
            '    fflush(stdout);\n'
            "    for (int i = 0; i < 200000000; i++) {\n        mmheap_report_alloc(heap, &p, "
            "4 << 20);\n"
            "        mmheap_report_free(heap, &p);\n        if (i % 1000 == 0) {\n            "
            "free(malloc(100000));\n"
            "            usleep(5000);\n        }\n    }\n}\n")
        config = self.dir / "heap.cfg"
        with lib.Popen([program], stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            config.write_text(
                # Later samples stand for lost samples, so no sample may be lost.
                'buffers { size_kb: 8192 } data_sources { config { name: "linux.heap" '
                'heapprofd_config { block_client: true'
                ' heaps: "a.pool" heap_sampling_intervals: 2 shmem_size_bytes: 65536'
                " adaptive_sampling_shmem_threshold: 65536 "
                "adaptive_sampling_max_sampling_interval_bytes: 2097152"
                f" pid: {process.pid} }} }} }}")
            self.record(config, process.pid, 0.3)
            process.kill()
        (n,
         mean), = self.query(
             "select sum(count), 1.0 * sum(size) / sum(count) from heap_profile_allocation where "
             "size > 0")
        self.assertGreater(n, 500)  # an allocation has two points
        self.assertTrue(4e6 < mean < 6e6, mean)

    @unittest.skipUnless((AGENT / "mmheap-attach").exists(), "mmheap-attach is not in this build")
    def test_a_program_that_runs_already(self):
        config = self.dir / "heap.cfg"
        with lib.Popen([POOLS, "1", "200", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                       text=True) as process:
            states.wait_for_cpu(process.pid, 0.05)
            config.write_text(
                'buffers { size_kb: 8192 } data_sources { config { name: "linux.heap"'
                ' heapprofd_config { block_client: true heaps: "truth.sessions" '
                'heaps: "truth.scratch" heap_sampling_intervals: 1000'
                f" heap_sampling_intervals: 300 pid: {process.pid} }} }} }}"
            )
            for _ in range(2):
                self.record(config, process.pid, 0.2)
            out, _ = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (0, "2 2\n"))
        for heap, interval in (("truth.sessions", 1000), ("truth.scratch", 300)):
            (rest, mean), = self.query(
                f"select max(size % {interval}), 1.0 * sum(size) / sum(count) from "
                "heap_profile_allocation"
                f" where size > 0 and heap_name = '{heap}'"
            )
            self.assertEqual(rest, 0)
            self.assertTrue(interval < mean < 1.3 * interval,
                            "few allocations have two points in them")
        self.assertEqual(self.heaps(), {"truth.sessions", "truth.scratch"})

    @unittest.skipUnless(TRACE_PROCESSOR,
                         "needs trace_processor_shell in TRACE_PROCESSOR_SHELL or PATH")
    def test_trace_processor_reads_all_heaps(self):
        self.profile(POOLS, 2, 3000, options=("--all-heaps", "-i", "1"))
        sql = (
            "select heap_name, sum(max(size, 0)) as a, sum(min(size, 0)) as f from "
            "heap_profile_allocation"
            " group by heap_name order by heap_name"
        )
        file = self.dir / "query.sql"
        file.write_text(sql + ";\n")
        result = run(TRACE_PROCESSOR, "-q", file, self.trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        theirs = [line.replace('"', "").split(",")
                  for line in result.stdout.strip().splitlines()[1:]]
        ours = [[str(value) for value in row] for row in self.query(sql)]
        self.assertEqual(theirs, ours)
        self.assertEqual(len(ours), 4)


# A folder with the C library and libunwind (libunwind-dev, libunwind8, liblzma5) of Debian's arm64,
# unpacked.
AARCH64 = pathlib.Path(os.environ.get("AARCH64_ROOT", "/nonexistent"))


@unittest.skipUnless(
    AARCH64.is_dir() and shutil.which("aarch64-linux-gnu-gcc") and shutil.which("qemu-aarch64"),
    "needs aarch64-linux-gnu-gcc, qemu-aarch64 and a system for them in AARCH64_ROOT",
)
class Aarch64(Base):
    """The part inside the program, built for another machine: its figures are exact."""

    @staticmethod
    def agent_sources(agent):
        """The sources of the library, from the build and the lists of the folders."""
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        found = {(BUILD / command["file"]).resolve() for command in commands
                 if re.search(r"/lib(mmheap\.so|common_inside\.a)\.p/", command.get("output", ""))}
        heap = ROOT / "producer" / "heap"
        names = re.search(r"^heap_inside_sources = files\((.*?)\)",
                          (heap / "meson.build").read_text(), re.MULTILINE | re.DOTALL)
        return sorted(found | {heap / name for name in re.findall(r"'([^']+)'", names[1])}
                      | {agent / "sampler.c"})

    def test_known_amounts(self):
        agent = ROOT / "producer" / "agents" / "heap"
        compile_ = ("aarch64-linux-gnu-gcc", "-std=gnu11", "-O2", "-g", "-D_GNU_SOURCE", "-I", ROOT)
        unwind = AARCH64 / "usr" / "include"
        result = run(
            *compile_, "-fPIC", "-shared", "-fvisibility=hidden", "-isystem",
            unwind / "aarch64-linux-gnu", "-isystem",
            unwind, *("-Wl,-f,libunwind.so.8", "-Wl,-z,initfirst", "-Wl,-z,nodelete", "-Wl,-z,now"),
            "-Werror", "-Wall",
            "-Wl,-z,defs", *self.agent_sources(agent), "-o", self.dir / "libmmheap.so",
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        program = self.dir / "heap_pools"
        result = run(
            *compile_, "-I", agent / "api", "-fno-optimize-sibling-calls", "-pthread", "-o",
            program,
            ROOT / "tests" / "tools" / "heap_pools.c", agent / "api" / "mmheap.c",
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        libraries = f"{AARCH64}/usr/lib/aarch64-linux-gnu:{AARCH64}/lib"
        self.profile(
            "env", "-u", "LD_PRELOAD", "qemu-aarch64", "-L", AARCH64, "-E",
            f"LD_LIBRARY_PATH={libraries}",
            "-E", f"LD_PRELOAD={self.dir}/libmmheap.so", program, "2", "1000",
            options=("--all-heaps", "-i", "1"),
        )
        self.check(2000, 1)


if __name__ == "__main__":
    unittest.main()
