# SPDX-License-Identifier: Apache-2.0
"""The Java agent: exact counts, objects still in use, attaching, and faults that must not disturb
the program."""
import contextlib
import math
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import unittest

import lib
import states
from lib import BUILD, MMSQL, MMTRACE, ROOT, end_vm, hides_tmp, needs_namespaces, run

AGENT = BUILD / "producer" / "agents" / "jvm" / "libtiallocsample.so"
SOURCES = ROOT / "tests" / "data" / "java"


def jdk():
    javac = shutil.which("javac")
    return pathlib.Path(javac).resolve().parents[1] if javac else None


JDK = jdk()


def java_version(home):
    text = run(home / "bin" / "java", "-version").stderr
    return int(re.search(r'version "(\d+)', text).group(1))


def newest_jdk():
    """A second VM, where one with virtual threads is installed."""
    homes = [home for home in pathlib.Path("/usr/lib/jvm").glob("*")
             if (home / "bin" / "java").exists()]
    return max(homes, key=java_version, default=JDK)


@unittest.skipUnless(AGENT.exists() and JDK,
                     "the Java agent is not in this build: needs a JDK, which scripts/install-deps "
                     "installs, and a new configuration")
class JavaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.classes = pathlib.Path(tempfile.mkdtemp(prefix="java-"))
        cls.addClassCleanup(shutil.rmtree, cls.classes, ignore_errors=True)
        built = run(JDK / "bin" / "javac", "--release", "17", "-d", cls.classes,
                    *SOURCES.glob("*.java"))
        if built.returncode != 0:
            raise RuntimeError(built.stderr)

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="java-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.log = self.dir / "samples.log"

    def java(self, options, *program, flags=(), home=JDK):
        agent = f"-agentpath:{AGENT}={options}" if options is not None else "-Dnone"
        command = [home / "bin" / "java", agent, *flags, "-Xmx256m", "-cp", self.classes,
                   "Allocations", *program]
        with lib.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as vm:
            for suffix in ("map", "map.times"):
                self.addCleanup(pathlib.Path(f"/tmp/perf-{vm.pid}.{suffix}").unlink,
                                missing_ok=True)
            said, errors = vm.communicate(timeout=60)
        return subprocess.CompletedProcess(command, vm.returncode, said, errors)

    def samples(self, log=None):
        """Rows of thread, type, size, innermost method, number of samples."""
        database = self.dir / "samples.db"
        database.unlink(missing_ok=True)
        result = run(MMSQL, "convert", "-q", "--alloc-log", log or self.log, "-o", database)
        self.assertEqual(result.returncode, 0, result.stderr)
        with contextlib.closing(sqlite3.connect(database)) as connection:
            return connection.execute("""
                select r.thread_name, r.type, r.size_bytes,
                       (select f.name from alloc_log_stack_frame sf join alloc_log_frame f
                       on f.id = sf.frame_id
                        where sf.stack_id = s.id
                        order by sf.depth desc limit 1), s.n_samples, s.n_frames
                from alloc_log_stack s join alloc_log_record r on r.id = s.record_id""").fetchall()

    @staticmethod
    def wait_log(log, size):
        lib.wait_for(lambda: log.exists() and log.stat().st_size >= size, f"{log} has {size} bytes")

    def count(self, rows, size, method="LAllocations;::ints(I)V"):
        return sum(n for _, _, bytes_, frame, n, _ in rows if bytes_ == size and frame == method)


class Counts(JavaTest):
    def test_each_allocation_is_seen_with_its_size(self):
        result = self.java(f"1,50,{self.log}", "both", "3000")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "done\n", ""))
        rows = self.samples()
        self.assertEqual(self.count(rows, 416), 3000)
        self.assertEqual(self.count(rows, 1016, "LAllocations;::bytes(I)V"), 6000)

    def test_one_in_ten(self):
        self.java(f"10,50,{self.log}", "both", "50000")
        rows = self.samples()
        # A block of ten has one sample; other allocations of the thread share the blocks at the
        # borders.
        self.assertAlmostEqual(self.count(rows, 416), 5000, delta=5)
        self.assertAlmostEqual(self.count(rows, 1016, "LAllocations;::bytes(I)V"), 10000, delta=5)

    def test_threads_that_allocate_less_than_the_rate_are_not_left_out(self):
        self.java(f"100,50,{self.log}", "threads", "50")
        n = self.count(self.samples(), 416)
        # 64 threads have 50 allocations each: half of the threads should have a sample.
        self.assertAlmostEqual(n, 32, delta=5 * math.sqrt(64 / 4))

    def test_what_is_still_in_use(self):
        result = self.java(f"1,50,{self.log},live", "keep", "2000")
        self.assertEqual(result.stderr, "")
        self.assertEqual(self.count(self.samples(), 416), 2000)
        rows = self.samples(f"{self.log}.live")
        self.assertEqual(self.count(rows, 416, "LAllocations;::keep(I)V"), 2000)
        self.assertLessEqual(self.count(rows, 416), 1)

    def test_every_line_is_as_documented(self):
        self.java(f"1,50,{self.log}", "both", "10")
        keys = -1
        for line in self.log.read_text().splitlines():
            if line[0] in "+=":
                keys += 1
                self.assertEqual(int(re.match(r"[+=](\d+),", line).group(1)), keys)
            else:
                self.assertLessEqual(int(line), keys)
        self.assertRegex(self.log.read_text(), re.compile(
            r"^\+\d+,jthread\[main\], jclass\[\[I file: <UNKNOWN_FILE>\], size\[416, hex: 0x1a0\]$",
            re.MULTILINE))


class Vms(JavaTest):
    """The agent does not disturb the program, whatever the VM does."""

    def test_flags(self):
        for flag in ("-Xint", "-Xcheck:jni", "-XX:+UseSerialGC", "-XX:+UseParallelGC",
                     "-XX:+UseG1GC", "-XX:+UseZGC"):
            with self.subTest(flag):
                result = self.java(f"7,50,{self.log},live,perfmap", "both", "7000", flags=[flag])
                self.assertEqual((result.returncode, result.stdout), (0, "done\n"), result.stderr)
                self.assertNotIn("WARNING in native", result.stdout + result.stderr)
                self.assertAlmostEqual(self.count(self.samples(), 416), 1000, delta=5)

    def test_recursion_deeper_than_the_limit(self):
        self.assertEqual(self.java(f"1,50,{self.log}", "deep", "100").returncode, 0)
        rows = [row for row in self.samples() if row[2] == 416]
        self.assertEqual({(row[4], row[5]) for row in rows}, {(100, 50)})

    def test_classes_that_come_and_go(self):
        n = int(os.environ.get("MMTRACE_TEST_CLASSES", "20000"))
        for mode in ("classes", "hidden"):
            with self.subTest(mode):
                result = self.java(f"10,20,{self.log},perfmap", mode, str(n), flags=["-Xmx256m"])
                self.assertEqual((result.returncode, result.stdout), (0, "done\n"), result.stderr)
                # Each object has an array of ten doubles, 96 bytes.
                found = sum(row[4] for row in self.samples() if row[1] == "[D" and row[2] == 96)
                self.assertAlmostEqual(found, n / 10, delta=6 * math.sqrt(n / 10))

    def test_halt(self):
        self.assertEqual(self.java(f"1,50,{self.log}", "halt", "1000").returncode, 3)
        self.assertEqual(self.count(self.samples(), 416), 1000)

    def test_a_killed_vm_leaves_a_log_that_can_be_read(self):
        with lib.Popen([JDK / "bin/java", f"-agentpath:{AGENT}=1,50,{self.log}", "-cp",
                        self.classes,
                               "Allocations", "forever", "0"], stdout=subprocess.PIPE) as vm:
            vm.stdout.readline()
            self.wait_log(self.log, 300000)
            vm.kill()
            self.addCleanup(end_vm, vm)
        self.assertGreater(self.count(self.samples(), 416), 1000)

    def test_a_log_that_cannot_be_written(self):
        for path in ("/nonexistent/folder/log", "/dev/full", str(self.dir)):
            result = self.java(f"1,50,{path}", "both", "100")
            self.assertEqual((result.returncode, result.stdout), (0, "done\n"))
            self.assertEqual(result.stderr.count("tiallocsample: "), 1, result.stderr)

    def test_a_symbolic_link_is_not_followed(self):
        victim = self.dir / "victim"
        victim.write_text("precious")
        self.log.symlink_to(victim)
        self.assertEqual(self.java(f"1,50,{self.log},live", "both", "100").returncode, 0)
        self.assertEqual(victim.read_text(), "precious")

    def test_a_file_with_another_name_is_not_emptied(self):
        victim = self.dir / "victim"
        victim.write_text("precious")
        pathlib.Path(f"{self.log}.live").hardlink_to(victim)
        result = self.java(f"1,50,{self.log},live", "both", "100")
        self.assertEqual((result.returncode, result.stderr.count(".live: ")), (0, 1), result.stderr)
        self.assertEqual(victim.read_text(), "precious")
        self.assertEqual(self.count(self.samples(), 416), 100)

    def test_wrong_options(self):
        for options in ("ten", "0", "10,0", "10,50,x,bites=5", "1,9999", "bytes=-1",
                        "bytes=99999999999"):
            with self.subTest(options):
                result = self.java(options, "both", "10")
                self.assertEqual((result.returncode, result.stdout), (0, "done\n"))
                self.assertIn("allocations are not recorded", result.stderr)


class Attach(JavaTest):
    def start(self, *flags, home=JDK):
        vm = subprocess.Popen([home / "bin/java", *flags, "-cp", self.classes, "Allocations",
                               "forever", "0"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(vm.stderr.close)
        self.addCleanup(vm.stdout.close)
        self.addCleanup(end_vm, vm)
        vm.stdout.readline()
        return vm

    def attach(self, vm, *options):
        return run(MMTRACE, "java", vm.pid, *options)

    def sample(self, pid, log, *options):
        """Samples until the log has 10,000 bytes, more than 500 samples. Returns the first lines of
        the output."""
        begun = run(MMTRACE, "java", pid, *options)
        self.assertEqual(begun.returncode, 0, begun.stderr)
        self.wait_log(log, 10000)
        ended = run(MMTRACE, "java", pid, "--stop")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return begun.stderr

    def test_a_running_program(self):
        vm = self.start()
        self.sample(vm.pid, self.log, "-r", "10", "--live", "-o", self.log)
        n = self.count(self.samples(), 416)
        self.assertGreater(n, 100)
        states.wait_for_cpu(vm.pid, 0.2)
        self.assertEqual(self.count(self.samples(), 416), n)
        self.assertGreater(self.count(self.samples(f"{self.log}.live"), 416,
                                      "LAllocations;::keep(I)V"), 0)
        self.assertIsNone(vm.poll())
        self.assertFalse(list(pathlib.Path("/tmp").glob(f".attach_pid{vm.pid}")))

    def test_again_and_again(self):
        vm = self.start()
        for i in range(3):
            log = self.dir / f"{i}.log"
            self.sample(vm.pid, log, "-b", "4k", "-o", log)
            self.assertGreater(sum(row[4] for row in self.samples(log)), 10)
        self.assertIsNone(vm.poll())

    def test_the_program_ends_before_its_time(self):
        vm = self.start()
        recorder = subprocess.Popen([MMTRACE, "java", str(vm.pid), "-t", "2m", "-r", "10", "-o",
                                     self.log],
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(recorder.kill)
        self.assertIn("samples go to", recorder.stderr.readline())
        self.wait_log(self.log, 1000)
        vm.terminate()
        self.assertIn("has ended before its time", recorder.communicate(timeout=30)[1])
        self.assertEqual(recorder.returncode, 0)
        self.assertGreater(self.count(self.samples(), 416), 10)

    def test_stop_without_start_is_reported(self):
        result = self.attach(self.start(), "--stop")
        self.assertEqual(result.returncode, 1)
        self.assertIn("refuses", result.stderr)

    def test_a_log_that_cannot_be_written_is_reported(self):
        vm = self.start()
        result = self.attach(vm, "-o", "/nonexistent/log")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the agent refuses", result.stderr)
        folder = self.dir / "a,stop"
        folder.mkdir()
        result = run(MMTRACE, "java", vm.pid, "-o", "log", cwd=folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("the VM would end the name at the comma", result.stderr)
        self.assertEqual(list(folder.iterdir()), [])
        self.assertIsNone(vm.poll())

    def test_other_programs_are_left_alone(self):
        with lib.Popen(["sleep", "60"]) as sleeper:
            result = run(MMTRACE, "java", sleeper.pid)
            self.assertEqual(result.returncode, 1)
            self.assertIn("not a Java VM", result.stderr)
            self.assertIsNone(sleeper.poll())
            sleeper.kill()

    def test_a_vm_that_would_die_of_sigquit_is_left_alone(self):
        vm = self.start("-Xrs")
        result = self.attach(vm)
        self.assertEqual(result.returncode, 1)
        self.assertIn("-Xrs", result.stderr)
        self.assertIsNone(vm.poll())

    @needs_namespaces
    @hides_tmp
    def test_another_mount_and_pid_namespace(self):
        pid, tmp = self.contained()
        result = run(MMTRACE, "java", pid, "-t", "500ms", "-b", "1k")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(sum(row[4] for row in self.samples(tmp / "tiallocsample.1.log")), 10)
        self.assertEqual([f.name for f in tmp.glob("libtiallocsample*")], [])

    def contained(self, *flags, hidden=None):
        """A VM in namespaces of its own, as in a container; its pid and its /tmp."""
        tmp = self.dir / "tmp"
        tmp.mkdir()
        hide = f"mount -t tmpfs none {hidden}; " if hidden else ""
        outer = subprocess.Popen(
            ["unshare", "-m", "-p", "-f", "--kill-child", *flags, "sh", "-c",
             f"cp -r {self.classes} {tmp}/classes; mount --bind {tmp} /tmp; {hide}"
             f"exec {JDK}/bin/java -Xmn8m -cp /tmp/classes Allocations forever 0"],
            stdout=subprocess.PIPE)
        self.addCleanup(outer.stdout.close)
        self.addCleanup(outer.wait)
        self.addCleanup(outer.kill)
        outer.stdout.readline()
        return int(pathlib.Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[
            0]), tmp

    @needs_namespaces
    @hides_tmp
    def test_a_container(self):
        """The VM sees neither the library nor the recorder's network. The VM keeps one agent,
        however often it gets a request."""
        pid, tmp = self.contained("-n", hidden=AGENT.parent)
        for i in range(2):
            said = self.sample(pid, tmp / f"{i}.log", "-b", "1k", "-o", f"/tmp/{i}.log")
            self.assertIn(f"below /proc/{pid}/root", said)
            self.assertGreater(sum(row[4] for row in self.samples(tmp / f"{i}.log")), 10)
        for i in range(2):
            trace = self.dir / f"{i}.pftrace"
            with lib.Popen([MMTRACE, "heap", "-i", "4k", "--heaps", "com.android.art", "-o",
                            str(trace), "--pid", str(pid)]) as recorder:
                states.wait_for_text(pid, "maps", "/memfd:mmheap")
                states.wait_for_rounds(pid, 20)
                recorder.send_signal(signal.SIGINT)
                self.assertEqual(recorder.wait(60), 0)
            lib.wait_for(lambda: "/memfd:mmheap" not in states.proc_text(pid, "maps"),
                         f"the profile of {pid} has ended")
            self.assertGreater(trace.stat().st_size, 1000)
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
        self.assertEqual(len(set(re.findall(r"/libtiallocsample\S*", maps))), 1)
        left = {f.name for f in tmp.iterdir()}
        self.assertEqual(left,
                         {"classes", "0.log", "1.log", ".java_pid1", "hsperfdata_root"} & left)

    @needs_namespaces
    @hides_tmp
    def test_a_container_with_links_where_its_folders_should_be(self):
        """The target of a link in the container is looked up in the container."""
        victim = self.dir / "victim"
        victim.mkdir()
        pid, tmp = self.contained()
        (tmp / ".attach_pid1").symlink_to(victim / "made")
        (tmp / ".java_pid1").symlink_to(victim / "socket")
        result = run(MMTRACE, "java", pid, "-t", "100ms")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(list(victim.iterdir()), [])

if __name__ == "__main__":
    unittest.main()
