# SPDX-License-Identifier: Apache-2.0
"""libtiallocsample.so in real JVMs: counts against the known allocations of the program."""
import collections
import os
import pathlib
import re
import resource
import shutil
import sqlite3
import subprocess
import tempfile
import time
import unittest

from lib import BUILD, MMSQL, run, wait_for

AGENT = BUILD / "producer" / "agents" / "jvm" / "libtiallocsample.so"

KNOWN = """
public class Known {
    static volatile Object sink;
    static void alpha() { sink = new byte[1000]; }
    static void beta() { sink = new long[100]; }
    static void deep(int n) { if (n == 0) alpha(); else deep(n - 1); }
    static void run(int n, int depth) {
        for (int i = 0; i < n; i++) { deep(depth); beta(); beta(); }
    }
    public static void main(String[] args) throws Exception {
        int n = Integer.parseInt(args[0]), depth = Integer.parseInt(args[1]);
        Thread[] threads = new Thread[Integer.parseInt(args[2])];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> run(n, depth), args[3].replace("\\\\n", "\\n") + i);
            threads[i].start();
        }
        for (Thread thread : threads)
            thread.join();
    }
}
"""

LOADER = """
import java.util.function.Supplier;
public class Loader extends ClassLoader {
    static volatile Object sink;
    public static class Made implements Supplier<Object> {
        public Object get() { return new int[99]; }
    }
    Loader() { super(Loader.class.getClassLoader()); }
    Class<?> make(byte[] code) { return defineClass("Loader$Made", code, 0, code.length); }
    public static void main(String[] args) throws Exception {
        byte[] code = Loader.class.getResourceAsStream("Loader$Made.class").readAllBytes();
        for (int i = 0; i < Integer.parseInt(args[0]); i++) {
            Class<?> made = new Loader().make(code);
            sink = ((Supplier<?>) made.getDeclaredConstructor().newInstance()).get();
        }
    }
}
"""

TINY = """
public class Tiny {
    static volatile Object sink;
    static void tiny() { sink = new Object(); }
    static void run(int n) { for (int i = 0; i < n; i++) tiny(); }
    public static void main(String[] args) { run(Integer.parseInt(args[0])); }
}
"""

VIRTUAL = """
public class Virtual {
    static volatile Object sink;
    public static void main(String[] args) throws Exception {
        Thread[] threads = new Thread[50];
        for (int i = 0; i < threads.length; i++)
            threads[i] = Thread.ofVirtual().name("virtual" + i).start(() -> {
                for (int n = 0; n < 100; n++) { sink = new char[33]; Thread.yield(); }
            });
        for (Thread thread : threads)
            thread.join();
    }
}
"""


def jdk():
    """The folder of the newest JDK of this machine; None if there is none."""
    homes = [os.environ["JAVA_HOME"]] if os.environ.get("JAVA_HOME") else []
    javac = shutil.which("javac")
    if javac:
        homes.append(os.path.dirname(os.path.dirname(os.path.realpath(javac))))
    homes += sorted(map(str, pathlib.Path("/usr/lib/jvm").glob("*")))
    homes = [home for home in homes if os.access(f"{home}/bin/javac", os.X_OK)]
    return max(homes, key=jdk_version) if homes else None


def jdk_version(home):
    found = re.search(r"(\d+)", run(f"{home}/bin/javac", "-version").stdout)
    return int(found.group(1)) if found else 0


class Log:
    """The contents of a log: the definition of each key, and the number of samples of each
    stack."""

    def __init__(self, path):
        self.text = pathlib.Path(path).read_bytes().decode("utf-8", "surrogateescape")
        self.keys, self.samples = {}, collections.Counter()
        for line in self.text.splitlines():
            if line[0] == "+":
                key, text = line[1:].split(",", 1)
                self.keys[int(key)] = text
            elif line[0] == "=":
                key, stack = line[1:].split(",")
                self.keys[int(key)] = [self.keys[int(k)] for k in stack.split(";")]
            else:
                self.samples[int(line)] += 1

    def stacks(self):
        """(record, frames from the outermost to the innermost, samples) of each stack."""
        return [(self.keys[k][0], self.keys[k][1:], n) for k, n in self.samples.items()]

    def count(self, wanted):
        return sum(n for record, frames, n in self.stacks() if wanted(record, frames))

    def by_innermost(self):
        counts = collections.Counter()
        for _, frames, n in self.stacks():
            counts[frames[-1] if frames else None] += n
        return counts


@unittest.skipUnless(AGENT.exists(), "libtiallocsample.so is not in this build (no JDK's headers)")
class Java(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = jdk()
        if not cls.home:
            raise unittest.SkipTest(
                "needs javac, which scripts/install-deps installs (default-jdk-headless)")
        cls.folder = tempfile.TemporaryDirectory(prefix="mmtrace-java-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = pathlib.Path(cls.folder.name)
        sources = {"Known": KNOWN, "Loader": LOADER, "Tiny": TINY}
        if jdk_version(cls.home) >= 21:
            sources["Virtual"] = VIRTUAL
        for name, text in sources.items():
            (cls.path / f"{name}.java").write_text(text)
        made = run(f"{cls.home}/bin/javac", *[f"{n}.java" for n in sources], cwd=cls.path)
        if made.returncode != 0:
            raise AssertionError(made.stderr)

    def java(self, options, *argv, **more):
        """Runs a program with the agent, which logs into `log`; returns the finished process."""
        return run(f"{self.home}/bin/java", "-Xmx128m", f"-agentpath:{AGENT}={options}", *argv,
                   cwd=self.path, **more)

    def log(self, options, *argv):
        done = self.java(options, *argv)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return Log(self.path / "log")

    def check_known(self, log, n, rate):
        counts = log.by_innermost()
        for method, allocations in (("alpha", n), ("beta", 2 * n)):
            # Five standard deviations of a binomial distribution.
            expected = allocations / rate
            self.assertAlmostEqual(counts[f"LKnown;::{method}()V"], expected,
                                   delta=5 * expected**0.5, msg=method)
        sizes = {record.split("], ")[-1] for record, frames, _ in log.stacks()
                 if frames and frames[-1].endswith("alpha()V")}
        self.assertEqual(sizes, {"size[1016, hex: 0x3f8]"})

    def test_counts_are_those_of_the_program(self):
        log = self.log("10,50,log", "Known", 20000, 3, 1, "worker")
        self.check_known(log, 20000, 10)
        self.assertEqual(max(log.keys), len(log.keys) - 1)
        stack = next(f for _, f, _ in log.stacks() if f and f[-1].endswith("alpha()V"))
        self.assertEqual([f.split("::")[1] for f in stack[-6:]],
                         ["run(II)V"] + ["deep(I)V"] * 4 + ["alpha()V"])

    def test_counts_where_the_vm_skips(self):
        """From rate 64 on HotSpot draws by bytes, but each allocation has the same chance, whatever
        its size."""
        log = self.log("100,50,log", "Known", 200000, 1, 2, "worker")
        self.check_known(log, 400000, 100)
        log = self.log("1000,50,log", "-XX:+UseSerialGC", "Known", 500000, 1, 1, "worker")
        self.check_known(log, 500000, 1000)
        # The smallest objects have no fields; from Java 25 on, they may have half the header.
        for flag in ["-XX:-UseCompactObjectHeaders",
                     "-XX:+UseCompactObjectHeaders"][:1 + (jdk_version(self.home) >= 25)]:
            log = self.log("100,50,log", "-XX:+IgnoreUnrecognizedVMOptions", flag, "Tiny", 1000000)
            self.assertAlmostEqual(log.by_innermost()["LTiny;::tiny()V"], 10000, delta=500,
                                   msg=flag)

    def test_every_allocation(self):
        log = self.log("1,4,log", "Known", 1000, 9, 1, "worker")
        self.assertAlmostEqual(log.by_innermost()["LKnown;::alpha()V"], 1000, delta=10)
        self.assertEqual(max(len(frames) for _, frames, _ in log.stacks()), 4)

    def test_vms_of_all_kinds(self):
        for flags in (["-Xint"], ["-Xcheck:jni"], ["-XX:+UseSerialGC"], ["-XX:+UseParallelGC"],
                      ["-XX:+UseG1GC"]):
            with self.subTest(flags=flags):
                log = self.log("10,50,log", *flags, "Known", 5000, 1, 2, "worker")
                self.check_known(log, 10000, 10)

    def test_many_threads(self):
        log = self.log("20,50,log", "Known", 1000, 300, 64, "worker")
        self.check_known(log, 64000, 20)
        threads = {r.split("]")[0] for r, f, _ in log.stacks()
                   if f and f[-1] in ("LKnown;::alpha()V", "LKnown;::beta()V")}
        self.assertEqual(threads, {f"jthread[worker{i}" for i in range(64)})
        self.assertEqual(max(len(frames) for _, frames, _ in log.stacks()), 50)

    def test_lines_and_short_names(self):
        log = self.log("1,50,log,lines,short", "Known", 10, 1, 1, "worker")
        self.assertEqual(log.by_innermost()["alpha()V (Known.java:4)"], 10)

    def test_bytes(self):
        log = self.log("bytes=64k,,,log", "Known", 200000, 1, 1, "worker")
        counts = log.by_innermost()
        for method, size in (("alpha", 1016), ("beta", 2 * 816)):
            expected = 200000 * size / 65536
            self.assertAlmostEqual(counts[f"LKnown;::{method}()V"], expected,
                                   delta=5 * expected**0.5, msg=method)

    def test_odd_names_stay_on_their_line(self):
        name = "x\\n+1,y; ], jclass[z], size[5, hex: 0x5]"
        log = self.log("1,50,log", "Known", 10, 1, 1, name)
        self.assertEqual(log.by_innermost()["LKnown;::alpha()V"], 10)
        self.assertIn("jthread[x?+1,y; ], jclass[z], size[5, hex: 0x5]0], jclass[[B file", log.text)
        made = run(MMSQL, "convert", self.path / "log", "-o", self.path / "odd.db")
        self.assertEqual(made.returncode, 0, made.stderr)
        with sqlite3.connect(self.path / "odd.db") as db:
            threads = [row[0]
                       for row in db.execute("select distinct thread_name from alloc_log_record")]
        self.assertIn("x?+1,y; ], jclass[z], size[5, hex: 0x5]0", threads)

    def test_classes_that_come_and_go(self):
        log = self.log("1,50,log", "-XX:MaxMetaspaceSize=48m", "-Xmx64m", "Loader", 20000)
        # Around a collection HotSpot does not report some allocations.
        self.assertAlmostEqual(log.by_innermost()["LLoader$Made;::get()Ljava/lang/Object;"], 20000,
                               delta=1000)

    def test_virtual_threads(self):
        if not (self.path / "Virtual.class").exists():
            self.skipTest("virtual threads come with JDK 21")
        log = self.log("1,50,log", "Virtual")
        threads = collections.Counter()
        for record, frames, n in log.stacks():
            if "jclass[[C " in record and frames and "Virtual;::lambda" in frames[-1]:
                threads[record.split("]")[0]] += n
        self.assertEqual(set(threads), {f"jthread[virtual{i}" for i in range(50)})
        self.assertAlmostEqual(sum(threads.values()), 5000, delta=50)

    def test_log_that_cannot_be_written(self):
        done = self.java("10,50,/nonexistent/log", "Known", 1, 1, 1, "worker")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "tiallocsample: /nonexistent/log: No such file or directory; "
                                      "allocations are not recorded\n")
        done = self.java("rate=10", "Known", 1, 1, 1, "worker")
        self.assertEqual(done.returncode, 0)
        self.assertIn("'rate=10' is not an option here", done.stderr)

    def test_full_disk(self):
        done = self.java("1,50,log", "Known", 200000, 1, 1, "worker", preexec_fn=lambda:
                         resource.setrlimit(resource.RLIMIT_FSIZE, (100001, 100001)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cannot be written any more", done.stderr)
        log = Log(self.path / "log")
        self.assertTrue(log.text.endswith("\n"))
        self.assertGreater(len(log.text), 90000)

    def test_killed_vm_leaves_whole_lines(self):
        vm = subprocess.Popen([f"{self.home}/bin/java", f"-agentpath:{AGENT}=1,50,killed", "Known",
                               "100000000", "1", "4", "worker"], cwd=self.path)
        try:
            log = self.path / "killed"
            wait_for(lambda: log.exists() and log.stat().st_size > 0, "samples reach the log")
            self.assertIsNone(vm.poll())
        finally:
            vm.kill()
            vm.wait()
        self.assertTrue(Log(log).text.endswith("\n"))

    def test_perf_map(self):
        vm = subprocess.Popen([f"{self.home}/bin/java", f"-agentpath:{AGENT}=1000,50,log,perfmap",
                               "Known", "1000000", "1", "1", "worker"], cwd=self.path)
        self.assertEqual(vm.wait(60), 0)
        path = pathlib.Path(f"/tmp/perf-{vm.pid}.map")
        times = path.with_suffix(".map.times")
        self.addCleanup(path.unlink)
        self.addCleanup(times.unlink)
        rows = [line.split(" ", 2) for line in path.read_text().splitlines()]
        names = {name for _, size, name in rows if int(size, 16) > 0}
        self.assertIn("LKnown;::run(II)V", names)
        self.assertIn("Interpreter", names)
        said = [line.split() for line in times.read_text().splitlines()]
        # Each line of the map has its time, in the same order; lines from before the start have no
        # time.
        self.assertEqual([line[1:] for line in said if len(line) == 3], [row[:2] for row in rows])
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.assertTrue(all(int(line[0]) == 0 or now - 100e9 < int(line[0]) < now for line in said))
        run_at = next(i for i, row in enumerate(rows) if row[2] == "LKnown;::run(II)V")
        self.assertGreater(int([line for line in said if len(line) == 3][run_at][0]), 0)
        self.assertTrue({line[1] for line in said if len(line) == 2} <= {row[0] for row in rows})

    def perf_map_run(self, options, **more):
        """stderr of a VM that writes a perf map, and the lines of it and of its times."""
        vm = subprocess.Popen([f"{self.home}/bin/java", f"-agentpath:{AGENT}=1000,50,log,{options}",
                               "Known", "100000", "1", "1", "worker"], cwd=self.path,
                              stderr=subprocess.PIPE, text=True, **more)
        self.addCleanup(vm.stderr.close)
        self.assertEqual(vm.wait(60), 0)
        path = pathlib.Path(f"/tmp/perf-{vm.pid}.map")
        times = path.with_suffix(".map.times")
        self.addCleanup(path.unlink)
        self.addCleanup(times.unlink)
        texts = path.read_text(), times.read_text()
        self.assertTrue(all(text.endswith("\n") for text in texts))
        return vm, [text.splitlines() for text in texts]

    def test_perf_map_has_a_limit(self):
        vm, (lines, times) = self.perf_map_run("perfmap=16k")
        self.assertEqual(vm.stderr.read(),
                         f"tiallocsample: /tmp/perf-{vm.pid}.map has reached 16384 "
                         "bytes, its file of times included; it ends here\n")
        self.assertTrue(100 < len(lines) <= len(times))
        self.assertLessEqual(sum(len(line) + 1 for line in lines + times), 16384)

    def test_perf_map_on_a_full_disk(self):
        vm, (lines, times) = self.perf_map_run("perfmap", preexec_fn=lambda:
                                               resource.setrlimit(resource.RLIMIT_FSIZE,
                                                                  (9999, 9999)))
        said = [line for line in vm.stderr.read().splitlines() if "perf-" in line]
        self.assertEqual(said,
                         [f"tiallocsample: /tmp/perf-{vm.pid}.map cannot be written any more; "
                          "it ends here: File too large"])
        self.assertGreater(min(len(lines), len(times)), 50)

    def test_perf_map_that_cannot_be_written(self):
        # The shell becomes the VM, so that the test knows the name of its map, and makes a folder
        # of this name.
        vm = subprocess.Popen(["sh", "-c", 'mkdir /tmp/perf-$$.map; exec "$@"', "sh",
                               f"{self.home}/bin/java", f"-agentpath:{AGENT}=10,50,log,perfmap",
                               "Known", "1000", "1", "1", "worker"], cwd=self.path,
                              stderr=subprocess.PIPE, text=True)
        self.addCleanup(vm.stderr.close)
        self.assertEqual(vm.wait(60), 0)
        path = pathlib.Path(f"/tmp/perf-{vm.pid}.map")
        self.addCleanup(path.rmdir)
        self.assertEqual(vm.stderr.read(),
                         f"tiallocsample: {path}: Is a directory; compiled code is "
                         "not recorded\n")
        self.assertGreater(len(Log(self.path / "log").samples), 0)


if __name__ == "__main__":
    unittest.main()
