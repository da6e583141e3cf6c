# SPDX-License-Identifier: Apache-2.0
"""The Java heap of a VM in heap profiles, beside its native heap."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import unittest

from lib import BUILD, MMSQL, MMTRACE, ROOT, end_vm, run, wait_for
import states

AGENT = BUILD / "producer" / "agents" / "jvm" / "libtiallocsample.so"
SOURCES = ROOT / "tests" / "data" / "java"
TRACE_PROCESSOR = os.environ.get("TRACE_PROCESSOR_SHELL")

CONFIG = """
buffers {{ size_kb: 8192 }}
data_sources {{ config {{ name: "linux.process_stats" }} }}
data_sources {{ config {{ name: "{}" heapprofd_config {{
  sampling_interval_bytes: 4096 {} heaps: "com.android.art" }} }} }}
duration_ms: {}
"""


@unittest.skipUnless(AGENT.exists() and shutil.which("javac"),
                     "the Java agent is not in this build: needs a JDK, which scripts/install-deps "
                     "installs, and a new configuration")
class JavaTrace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.classes = pathlib.Path(tempfile.mkdtemp(prefix="java-"))
        cls.addClassCleanup(shutil.rmtree, cls.classes, ignore_errors=True)
        built = run("javac", "--release", "17", "-d", cls.classes, *SOURCES.glob("*.java"))
        if built.returncode != 0:
            raise RuntimeError(built.stderr)

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="java-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.trace = self.dir / "t.pftrace"
        self.environment = {**os.environ, "MMTRACE_HEAP_SOCKET": str(self.dir / "heap.sock")}

    def start(self, *args, **options):
        process = subprocess.Popen([str(arg) for arg in args], env=self.environment,
                                   stdout=subprocess.PIPE, text=True, **options)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def java(self, *flags, name="java"):
        process = self.start(name, *flags, "-Xmx256m", "-Xmn8m", "-cp", self.classes, "Allocations",
                             "forever", "1")
        self.addCleanup(end_vm, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def record(self, who, ms, source="linux.heap"):
        config = self.dir / "config"
        config.write_text(CONFIG.format(source, who, ms))
        with open(self.dir / "said", "w", encoding="utf-8") as said:
            return self.start(MMTRACE, "record", "-c", config, "-o", self.trace, stderr=said)

    def named(self):
        """A link to java under a name that no other VM of the machine has."""
        name = self.dir / f"vm{os.getpid()}"
        name.symlink_to(pathlib.Path(shutil.which("java")).resolve())
        return name

    def wait_ring(self, java, other_than=None):
        """Waits until a VM's samples go to a recorder. Returns the inode of their ring."""
        def ring():
            found = re.search(r" (\d+) +/memfd:mmheap", states.proc_text(java.pid, "maps"))
            return found and found[1] != other_than and found[1]
        return wait_for(ring, f"process {java.pid} samples")

    def wait_sampled(self, java, other_than=None):
        """Waits until a VM's samples go to a recorder, and the VM has then allocated some 25 MB:
        three times its young heap."""
        self.wait_ring(java, other_than)
        states.wait_for_rounds(java.pid, 300)

    def profile(self, java, *options):
        """Profiles a VM that runs already, until samples have come."""
        recorder = self.start(MMTRACE, "heap", "-i", "4k", *options, "-o", self.trace, "--pid",
                              java.pid)
        self.wait_sampled(java)
        recorder.send_signal(signal.SIGINT)
        self.assertEqual(recorder.wait(60), 0)

    def allocated(self):
        """{pid: bytes of Java objects}"""
        return dict(self.query(
            "select pid, sum(max(size, 0)) from heap_profile_allocation join process using (upid) "
            "where heap_name = 'com.android.art' group by 1"))

    def query(self, sql):
        database = self.dir / "t.db"
        if not database.exists():
            result = run(MMSQL, "convert", "-q", self.trace, "-o", database)
            self.assertEqual(result.returncode, 0, result.stderr)
        with contextlib.closing(sqlite3.connect(database)) as connection:
            return connection.execute(sql).fetchall()

    def heaps(self):
        return dict(self.query("select heap_name, sum(max(size, 0)) from heap_profile_allocation "
                               "group by heap_name order by 1"))

    def test_both_heaps_of_a_program(self):
        result = run(MMTRACE, "heap", "-i", "4k", "--heaps", "libc.malloc,com.android.art", "-o",
                     self.trace, "--",
                     "java", "-cp", self.classes, "Allocations", "keep", "50000")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(set(self.heaps()), {"com.android.art", "libc.malloc"})
        self.assertEqual(self.query("select count(distinct upid) from heap_profile_allocation"),
                         [(1,)])
        sizes = dict(self.query("""
            select f.name, sum(a.size) from heap_profile_allocation a
            join stack_profile_callsite c on c.id = a.callsite_id join stack_profile_frame f
            on f.id = c.frame_id
            where heap_name = 'com.android.art' and a.size > 0 group by 1"""))
        # 50,000 arrays of 50 longs.
        self.assertAlmostEqual(sizes["Allocations.keep"], 50000 * 416,
                               delta=5 * (50000 * 416 * 4096) ** 0.5)
        if TRACE_PROCESSOR:
            sql = self.dir / "sql"
            sql.write_text(
                "select 'heap=' || heap_name from heap_profile_allocation group by heap_name;")
            read = run(TRACE_PROCESSOR, "-q", sql, self.trace)
            self.assertIn("heap=com.android.art", read.stdout)
            self.assertIn("heap=libc.malloc", read.stdout)

    def test_a_vm_that_runs(self):
        """The recorder attaches to the VM. Garbage counts as freed, and the VM goes on."""
        java = self.java()
        self.profile(java, "--heaps", "com.android.art")
        (allocated,
         kept), = self.query("select sum(max(size, 0)), sum(size) from heap_profile_allocation")
        self.assertGreater(allocated, 10000000)
        self.assertLess(kept, allocated / 2)
        self.assertIsNone(java.poll())

    def test_killed_recorder_and_killed_vm(self):
        """The VM does not wait for a recorder and finds the next one; if the VM is killed, its
        profile is whole."""
        java = self.java(f"-agentpath:{AGENT}=trace")
        first = self.record(f"pid: {java.pid}", 600000)
        old = self.wait_ring(java)
        first.send_signal(signal.SIGKILL)
        first.wait(60)
        self.trace.unlink(missing_ok=True)
        second = self.record(f"pid: {java.pid}", 600000)
        self.wait_sampled(java, old)
        java.kill()
        java.wait(60)
        second.send_signal(signal.SIGINT)
        self.assertEqual(second.wait(60), 0)
        self.assertGreater(self.heaps()["com.android.art"], 1000000)

    def test_a_config_names_vms(self):
        """A VM that runs and one that starts later; neither was prepared. No file of the requests
        is left."""
        name = self.named()
        before = self.java(name=name)
        recorder = self.record(f'process_cmdline: "{name.name}"', 120000, "android.heapprofd")
        self.wait_sampled(before)
        later = self.java(name=name)
        self.wait_sampled(later)
        recorder.send_signal(signal.SIGINT)
        self.assertEqual(recorder.wait(60), 0)
        allocated = self.allocated()
        self.assertEqual(set(allocated), {before.pid, later.pid})
        self.assertGreater(min(allocated.values()), 1000000)
        self.assertEqual((before.poll(), later.poll()), (None, None))
        self.assertEqual(list(pathlib.Path("/tmp").glob(f".attach_pid{before.pid}")), [])

    def test_a_vm_that_is_still_starting(self):
        """A VM takes requests before it gives JVMTI to agents. An agent of its own holds it there
        for three seconds."""
        source, agent = self.dir / "slow.c", self.dir / "libslow.so"
        source.write_text("#include <jvmti.h>\n#include <stdio.h>\n#include <unistd.h>\n"
                          "static void JNICALL on_start(jvmtiEnv *jvmti, JNIEnv *jni)\n"
                          '{\n    puts("starting");\n    fflush(stdout);\n    sleep(3);\n}\n'
                          "jint Agent_OnLoad(JavaVM *vm, char *options, void *reserved)\n{\n    "
                          "jvmtiEnv *jvmti;\n"
                          "    jvmtiEventCallbacks callbacks = {.VMStart = on_start};\n"
                          "    (*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_1_2);\n"
                          "    (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof(callbacks));\n"
                          "    return (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, "
                          "JVMTI_EVENT_VM_START, NULL);\n}\n")
        include = pathlib.Path(shutil.which("javac")).resolve().parent.parent / "include"
        built = run(os.environ.get("CC", "cc"), "-shared", "-fPIC", f"-I{include}",
                    f"-I{include}/linux", source, "-o", agent)
        self.assertEqual(built.returncode, 0, built.stderr)
        # A VM that has mmtrace's agent, too, asks for a profile when it has started.
        for more in ([], [f"-agentpath:{AGENT}=trace"]):
            with self.subTest(more):
                vm = self.start("java", *more, f"-agentpath:{agent}", "-Xmx256m", "-Xmn8m", "-cp",
                                self.classes, "Allocations", "forever", "1")
                self.addCleanup(end_vm, vm)
                self.assertEqual(vm.stdout.readline(), "starting\n")
                recorder = self.record(f"pid: {vm.pid}", 120000, "android.heapprofd")
                self.assertEqual(vm.stdout.readline(), "ready\n")
                self.wait_sampled(vm)
                recorder.send_signal(signal.SIGINT)
                self.assertEqual(recorder.wait(60), 0)
                self.assertEqual(set(self.allocated()), {vm.pid})
                (self.dir / "t.db").unlink()
                end_vm(vm)

    def test_only_those_that_run_or_only_those_that_start(self):
        """VMs with the agent connect at any time without a request; the recorder attaches to other
        VMs."""
        for field, of_before, of_later in (("no_running", False, True),
                                           ("no_startup", True, False)):
            with self.subTest(field), contextlib.ExitStack() as stack:
                name = self.named()
                stack.callback(name.unlink)
                before = [self.java(name=name), self.java(f"-agentpath:{AGENT}=trace", name=name)]
                recorder = self.record(f'process_cmdline: "{name.name}" {field}: true', 600000)
                wait_for((self.dir / "heap.sock.java").exists, "the recorder waits for programs")
                later = [self.java(name=name), self.java(f"-agentpath:{AGENT}=trace", name=name)]
                for vm in before + later:
                    stack.callback(end_vm, vm)
                expected = {vm.pid
                            for vm in (before if of_before else []) + (later if of_later else [])}
                for vm in before + later:
                    if vm.pid in expected:
                        self.wait_sampled(vm)
                for vm in before + later:  # the other VMs have as much time to connect
                    states.wait_for_cpu(vm.pid, 0.3)
                recorder.send_signal(signal.SIGINT)
                self.assertEqual(recorder.wait(60), 0)
                stack.callback((self.dir / "t.db").unlink, missing_ok=True)
                self.assertEqual(set(self.allocated()), expected,
                                 (self.dir / "said").read_text())

    def test_collectors(self):
        """Each collector reports garbage in its own way. One collector never collects, so all
        objects are in use."""
        for flag in ("Serial", "Parallel", "G1", "Z", "Shenandoah", "Epsilon"):
            flags = ["-XX:+UnlockExperimentalVMOptions", f"-XX:+Use{flag}GC", "-Xmx400m"]
            if run("java", *flags, "-version").returncode != 0:
                continue
            with self.subTest(flag):
                result = run(MMTRACE, "heap", "-q", "-i", "16k", "--heaps", "com.android.art", "-o",
                             self.trace, "--",
                             "java", *flags, "-cp", self.classes, "Allocations", "garbage",
                             "100000")
                self.assertEqual(result.returncode, 0, result.stderr)
                (self.dir / "t.db").unlink(missing_ok=True)
                (allocated, kept), = self.query("""
                    select sum(max(a.size, 0)), sum(a.size) from heap_profile_allocation a
                    join stack_profile_callsite c on c.id = a.callsite_id join stack_profile_frame f
                    on f.id = c.frame_id
                    where f.name = 'Allocations.ints'""")
                size = 100000 * 416
                # The deviation of a sum of samples is the square root of the true sum times the
                # sampling interval.
                deviation = (size * 16384) ** 0.5
                self.assertAlmostEqual(allocated, size, delta=5 * deviation)
                if flag == "Epsilon":
                    self.assertEqual(kept, allocated)
                else:
                    self.assertLess(kept, allocated / 4)

    def test_continuous_dumps(self):
        """Each dump is complete, has both heaps, and continues the dump before."""
        java = self.java()
        self.profile(java, "-c", "50", "--heaps", "libc.malloc,com.android.art")
        dumps = self.query("select ts_end, count(*) from heap_profile group by 1 order by 1")
        self.assertGreaterEqual(len(dumps), 4)
        self.assertEqual(dumps[-1][1], 2)
        grown = self.query("""
            select ts, sum(max(size, 0)) from heap_profile_allocation
            where heap_name = 'com.android.art' group by 1 order by 1""")
        # On a busy machine, the VM may not run between two dumps.
        self.assertGreaterEqual(len([size for _, size in grown if size > 0]), 3)
        self.assertGreater(sum(size for _, size in grown), 10000000)


if __name__ == "__main__":
    unittest.main()
