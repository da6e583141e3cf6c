# SPDX-License-Identifier: Apache-2.0
"""Names of generated code: the perf maps of runtimes get into traces, and name frames."""
import contextlib
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

import states
import lib
from lib import BUILD, MMSQL, MMTRACE, needs_namespaces, needs_root, run, wait_for

AGENT = BUILD / "producer" / "agents" / "jvm" / "libtiallocsample.so"
LIBRARY = BUILD / "producer" / "agents" / "heap" / "libmmheap.so"

APP = """
const kept = [];
function inner_hungry(i) { kept.push(Buffer.allocUnsafeSlow(100000 + i)); return kept.length; }
function outer_loop(n) {
  let s = 0;
  for (let i = 0; i < n; i++) s += inner_hungry(i % 10);
  return s;
}
outer_loop(300);
"""

# A Deflater takes 268 KB from malloc.
JAVA = """
import java.util.zip.Deflater;
public class Native {
    static Deflater[] kept = new Deflater[600];
    static void hungry(int i) { kept[i] = new Deflater(); }
    static void outer(int n) { for (int i = 0; i < n; i++) hungry(i); }
    public static void main(String[] args) { for (int i = 0; i < 30000; i++) outer(0); outer(600); }
}
"""

# Stands for a runtime: appends to its map from time to time, under its pid in its own namespace.
WRITER = """
import os, sys, time
with open(f"/tmp/perf-{os.getpid()}.map", "w") as out:
    for i in range(int(sys.argv[1])):
        print(f"{4096 + 16 * i:x} 10 function {i}", file=out, flush=True)
        time.sleep(0.1)
time.sleep(float(sys.argv[2]))
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="perf-map-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.trace, self.db = self.dir / "trace", self.dir / "db"

    def convert(self):
        done = run(MMSQL, "convert", "-q", self.trace, "-o", self.db)
        self.assertEqual(done.returncode, 0, done.stderr)

    def query(self, sql):
        with contextlib.closing(sqlite3.connect(self.db)) as handle:
            return handle.execute(sql).fetchall()


@unittest.skipUnless(LIBRARY.exists(), "libmmheap.so is not in this build")
@lib.needs_program("node")
class Node(Case):
    """A real runtime: native allocations have the JavaScript functions that made them."""

    def test_heap_profile_names_javascript(self):
        app = self.dir / "app.js"
        app.write_text(APP)
        done = run(MMTRACE, "heap", "-q", "-i", "4096", "-o", self.trace, "--", "node",
                   "--perf-basic-prof",
                   # with both options node writes a log into its working folder
                   "--interpreted-frames-native-stack", app, cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.convert()
        [(path, n_bad)] = self.query("SELECT path, n_bad_lines FROM perf_map")
        pathlib.Path(path).unlink()
        self.assertRegex(path, "^/tmp/perf-[0-9]+[.]map$")
        self.assertEqual(n_bad, 0)
        allocated = dict(self.query("""
            WITH RECURSIVE up(size, id, parent_id, frame_id) AS (
              SELECT h.size, c.id, c.parent_id, c.frame_id FROM heap_profile_allocation h
              JOIN stack_profile_callsite c ON c.id = h.callsite_id WHERE h.size > 0
              UNION ALL SELECT u.size, c.id, c.parent_id, c.frame_id FROM up u
              JOIN stack_profile_callsite c ON c.id = u.parent_id)
            SELECT function, sum(size) FROM up JOIN stack_frame USING (frame_id)
            WHERE source = 'perf map' AND function GLOB '*app.js:*' GROUP BY 1"""))
        hungry = [size for name, size in allocated.items() if "inner_hungry" in name]
        self.assertTrue(30e6 * 0.95 < sum(hungry) < 30e6 * 1.1, allocated)
        self.assertTrue(any("outer_loop" in name for name in allocated), allocated)
        folded = run(MMSQL, "flamegraph", "--folded", "--total", self.db).stdout
        stacks = [line for line in folded.splitlines() if "inner_hungry" in line]
        self.assertTrue(any(re.search(
            r"outer_loop [^;]*app\.js:4[:\d]*;[^;]*inner_hungry [^;]*app\.js:3[:\d]*;", line)
                            for line in stacks), stacks[:1])


@unittest.skipUnless(LIBRARY.exists() and AGENT.exists(),
                     "libmmheap.so or libtiallocsample.so is not in this build")
@lib.needs_program("javac")
class Jvm(Case):
    """A real VM whose agent writes the map: native allocations have the Java methods that made
    them."""

    def test_heap_profile_names_java(self):
        (self.dir / "Native.java").write_text(JAVA)
        self.assertEqual(run("javac", "Native.java", cwd=self.dir).returncode, 0)
        done = run(MMTRACE, "heap", "-q", "-i", "4096", "-o", self.trace, "--", "java", "-Xcomp",
                   "-XX:-Inline", "-XX:+PreserveFramePointer",
                   "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,Native::*",
                   f"-agentpath:{AGENT}=1000000,50,{self.dir}/log,perfmap", "Native", cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.convert()
        [(path, n_bad, n_times)] = self.query(
            "SELECT path, n_bad_lines, (SELECT count(*) FROM perf_map_code) FROM perf_map")
        pathlib.Path(path).unlink()
        pathlib.Path(path + ".times").unlink()
        self.assertEqual(n_bad, 0)
        self.assertGreater(n_times, 0)
        [(count, early)] = self.query(
            "SELECT count(*), sum(first_ts < (SELECT end_ts FROM trace_bounds)) "
            "FROM perf_map_symbol WHERE name = 'LNative;::hungry(I)V'")
        self.assertEqual(count, early)
        self.assertGreater(count, 0)
        [(size,)] = self.query(
            "SELECT sum(h.size) FROM heap_profile_allocation h WHERE h.size > 0 "
            "AND id IN (SELECT sample_id FROM call_stack_frame WHERE kind = 'heap profile' "
            "AND source = 'perf map' AND function = 'LNative;::hungry(I)V')")
        self.assertTrue(600 * 260e3 < size < 600 * 290e3, size)
        folded = run(MMSQL, "flamegraph", "--folded", "--total", self.db).stdout
        self.assertIn(";Native.outer(int);Native.hungry(int);", folded)

    def test_methods_that_were_inlined(self):
        """The map names an inlined method after the method around it, and flame graphs have a
        frame for each."""
        (self.dir / "Native.java").write_text(JAVA)
        self.assertEqual(run("javac", "Native.java", cwd=self.dir).returncode, 0)
        done = run(MMTRACE, "heap", "-q", "-i", "4096", "-o", self.trace, "--", "java", "-Xcomp",
                   "-XX:+PreserveFramePointer",
                   "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,Native::*",
                   f"-agentpath:{AGENT}=1000000,50,{self.dir}/log,perfmap,inlined", "Native",
                   cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.convert()
        [(path, n_bad)] = self.query("SELECT path, n_bad_lines FROM perf_map")
        pathlib.Path(path).unlink()
        pathlib.Path(path + ".times").unlink()
        self.assertEqual(n_bad, 0)
        [(size,)] = self.query(
            "SELECT sum(h.size) FROM heap_profile_allocation h WHERE h.size > 0 "
            "AND id IN (SELECT sample_id FROM call_stack_frame WHERE kind = 'heap profile' "
            "AND source = 'perf map' AND function GLOB '*LNative;::outer(I)V->LNative;"
            "::hungry(I)V')")
        self.assertTrue(600 * 260e3 < size < 600 * 290e3, size)
        folded = run(MMSQL, "flamegraph", "--folded", "--total", self.db).stdout
        self.assertIn(";Native.outer(int);Native.hungry(int);", folded)
        self.assertNotIn("->", folded)


@needs_root
class Source(Case):
    CONFIG = (
        'buffers { size_kb: 4096 } duration_ms: 60000 data_sources { config '
        '{ name: "linux.perf_map" perf_map_config { process_cmdlines: "%s" period_ms: 50 } } }')

    def record(self, name):
        config = self.dir / "config"
        config.write_text(self.CONFIG % name)
        recorder = subprocess.Popen([MMTRACE, "record", "-c", config, "--txt", "-o", self.trace],
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        return recorder

    def end(self, recorder):
        recorder.send_signal(2)
        _, said = recorder.communicate(timeout=60)
        self.assertEqual(recorder.returncode, 0, said)
        self.convert()

    def start(self, *front, lines, stay):
        """A writer under a name of its own."""
        name = self.dir / f"writer{os.getpid()}"
        if not name.exists():
            name.symlink_to(os.path.realpath(sys.executable))
        child = subprocess.Popen([*front, name, "-c", WRITER, str(lines), str(stay)])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child, name.name

    def test_a_map_that_grows(self):
        child, name = self.start(lines=30, stay=600)
        self.addCleanup(pathlib.Path(f"/tmp/perf-{child.pid}.map").unlink, missing_ok=True)
        recorder = self.record(name)
        states.wait_for_text(child.pid, "cmdline", "writer")
        map_file = pathlib.Path(f"/tmp/perf-{child.pid}.map")
        wait_for(lambda: map_file.exists() and map_file.read_text().count("\n") == 30,
                 "the whole map")
        states.wait_for_turns(recorder.pid, 4)
        self.end(recorder)
        [(path, n, n_bad,
          pid)] = self.query(
              "SELECT path, n_symbols, n_bad_lines, p.pid FROM perf_map m JOIN process p "
              "USING (upid)")
        self.assertEqual((path, n, n_bad, pid), (f"/tmp/perf-{child.pid}.map", 30, 0, child.pid))
        rows = self.query("SELECT start, size, name, first_ts FROM perf_map_symbol ORDER BY id")
        self.assertEqual([r[:3] for r in rows],
                         [(4096 + 16 * i, 16, f"function {i}") for i in range(30)])
        self.assertGreater(rows[-1][3] - rows[0][3], 200_000_000)

    @needs_namespaces
    def test_namespaces_and_a_process_that_ends(self):
        """The process has a /tmp of its own, and another pid in its namespace."""
        script = 'mount -t tmpfs none /tmp && exec "$@"'
        name = self.dir / f"writer{os.getpid()}"
        recorder = self.record(name.name)
        states.wait_for_recorder(recorder.pid)
        states.wait_for_turns(recorder.pid, 2)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="perf-map-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, folder)
        self.dir = folder  # the namespace hides /tmp
        child, _ = self.start("unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c",
                              script, "-", lines=5, stay=5)
        self.assertEqual(child.wait(timeout=60), 0)
        states.wait_for_turns(recorder.pid, 4)
        self.end(recorder)
        [(path, n)] = self.query("SELECT path, n_symbols FROM perf_map")
        self.assertEqual((path, n), ("/tmp/perf-1.map", 5))

    def test_another_root(self):
        """Like a standalone program of Android: the map is at Android's place, and grows while it
        is read."""
        root = self.dir / "root"
        (root / "data/local/tmp").mkdir(parents=True)
        recorder = self.record(f"writer{os.getpid()}")
        states.wait_for_recorder(recorder.pid)
        states.wait_for_turns(recorder.pid, 2)
        name = self.dir / f"writer{os.getpid()}"
        name.symlink_to(os.path.realpath(sys.executable))
        script = WRITER.replace('with open(f"/tmp/',
                                f'os.chroot("{root}")\nwith open(f"/data/local/tmp/')
        child = subprocess.Popen([name, "-c", script, "30", "600"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        map_file = root / f"data/local/tmp/perf-{child.pid}.map"
        wait_for(lambda: map_file.exists() and map_file.read_text().count("\n") == 30,
                 "the whole map")
        states.wait_for_turns(recorder.pid, 4)
        self.end(recorder)
        rows = self.query(
            "SELECT m.path, s.name, s.first_ts FROM perf_map m JOIN perf_map_symbol s ON "
            "s.perf_map_id = m.id ORDER BY s.id")
        self.assertEqual([row[:2] for row in rows], [(f"/data/local/tmp/perf-{child.pid}.map",
                                                      f"function {i}") for i in range(30)])
        self.assertGreater(rows[-1][2] - rows[0][2], 200_000_000)


if __name__ == "__main__":
    unittest.main()
