# SPDX-License-Identifier: Apache-2.0
"""tests/bench/queries: the number that counts as the peer's time, the goals that --check tests, and
that --check can fail.

The peer in these tests is a script that gives mmsql's answers and the times that a test wants.
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import shutil
import sys
import tempfile
import unittest
from unittest import mock

import lib

BENCH = lib.ROOT / "tests" / "bench" / "queries"
NAME = "heap by function"  # a question without a QUICK goal

PEER = """#!{python}
import pathlib, subprocess, sys
options = dict(zip(sys.argv[1:5:2], sys.argv[2:5:2]))
sql = pathlib.Path(options["-q"]).read_text()
pathlib.Path(options["--perf-file"]).write_text("{times}")
done = subprocess.run(["{mmsql}", "query", "-q", "--csv", sys.argv[5], sql], check=True,
                      capture_output=True, text=True)
print(done.stdout.replace("{old}", "{new}"), end="")
"""


def bench():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("bench_queries", str(BENCH))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Goals(unittest.TestCase):
    def setUp(self):
        self.bench = bench()

    def missed(self, **times):
        """The goals that questions with these times miss: (ours, the peer's) in ms."""
        results = {}
        for name, (ms, peer_ms) in times.items():
            result = results[name.replace("_", " ")] = self.bench.Result()
            result.ms, result.peer_ms = ms, peer_ms
        return self.bench.missed(results)

    def test_goals(self):
        self.assertEqual(self.missed(a=(10, 10), b=(29, 10), c=(1, 10)), [])
        slow, = self.missed(a=(31, 10), b=(1, 10))
        self.assertIn("a: 3.10 times", slow)
        mean, = self.missed(a=(29, 10), b=(5, 10))
        self.assertIn("the mean of the ratios is 1.20", mean)
        quick, = self.missed(slices_by_name=(5.1, 10))
        self.assertIn("slices by name: 5.1 ms", quick)
        self.assertEqual(self.missed(slices_by_name=(4.9, 10)), [])

    def test_each_quick_question_is_asked(self):
        self.assertLessEqual(set(self.bench.QUICK), set(self.bench.QUERIES))

    def test_the_open_is_not_counted(self):
        class Program:
            def ask(self, _, sql):
                return [], 7 if sql == "SELECT 1" else 10
        result = self.bench.Result()
        result.measure(NAME, "SELECT 2", Program(), None, 2)
        self.assertEqual(result.ms, 3)


class Runs(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="bench-queries-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def argv(self, peer_ns, *options, old="", new=""):
        peer = self.dir / "peer"
        times = f"999999999999,{peer_ns}" if isinstance(peer_ns, int) else peer_ns
        peer.write_text(PEER.format(python=sys.executable, mmsql=lib.MMSQL, times=times,
                                    old=old or "never there", new=new))
        peer.chmod(0o755)
        return [BENCH, "--build", lib.BUILD, "--trace-processor", peer, "--events", 2000,
                "--repeat", 1, *options, NAME]

    def run_with(self, *args, **options):
        return lib.run(*self.argv(*args, **options), timeout_s=300)

    def run_with_goals_of_0(self, *options):
        """Our time can be as short as MS_LEAST, because the time of SELECT 1 is subtracted. With
        goals of 0, each time misses. Returns the exit code and the output."""
        module, out = bench(), io.StringIO()
        argv = [str(a) for a in self.argv(10_000, *options)]
        with mock.patch.multiple(module, MEAN_MAX=0, RATIO_MAX=0), mock.patch("sys.argv", argv), \
                contextlib.redirect_stdout(out), self.assertRaises(SystemExit) as end:
            module.main()
        return end.exception.code, out.getvalue()

    def test_check_fails_and_passes(self):
        code, said = self.run_with_goals_of_0("--check")
        self.assertEqual(code, 1, said)
        self.assertRegex(said, f"missed: {NAME}: .* times the peer's time, above 0")
        self.assertIn("missed: the mean of the ratios", said)
        code, said = self.run_with_goals_of_0()
        self.assertEqual((code, said.count("missed")), (0, 0), "goals are for --check")
        quick = self.run_with(10**12, "--check")  # a peer that takes 1000 s
        self.assertEqual((quick.returncode, quick.stdout.count("missed")), (0, 0), quick.stdout)
        self.assertIn("1000000.0 ms", quick.stdout)

    def test_other_answers(self):
        done = self.run_with(10**12, old="function", new="other")
        self.assertEqual(done.returncode, 1)
        self.assertIn("DIFFER", done.stdout)

    def test_a_peer_without_times(self):
        done = self.run_with("no times")
        self.assertEqual(done.returncode, 1)
        self.assertIn("its --perf-file is none", done.stderr)

    def test_check_without_a_peer(self):
        done = lib.run(sys.executable, "-B", BENCH, "--build", lib.BUILD, "--check", "--events",
                       2000,
                       "--repeat", 1, NAME, env={"PATH": "/usr/bin:/bin"}, timeout_s=300)
        self.assertEqual(done.returncode, 1)
        self.assertIn("missing: trace_processor_shell", done.stderr)


if __name__ == "__main__":
    unittest.main()
