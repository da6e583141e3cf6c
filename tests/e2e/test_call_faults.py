# SPDX-License-Identifier: Apache-2.0
"""System calls that fail: each verb of mmsql does its work, or reports a failure and changes no
file.

strace makes one call fail: the Nth of its kind in a thread, on any file. test_survival.py has
recordings on a full disk.
"""
import collections
import contextlib
import random
import subprocess
import time
import unittest

import faults
import faults_verbs
import lib
import strangers

FAULTS = (("pwrite64", "EIO"), ("pwrite64", "ENOSPC"), ("write", "EIO"), ("write", "ENOSPC"),
          ("read", "EIO"),
          ("pread64", "EIO"), ("fsync", "EIO"), ("ftruncate", "ENOSPC"), ("fallocate", "EIO"),
          ("rename", "EIO"),
          ("renameat2", "EIO"), ("linkat", "EIO"), ("mkdir", "ENOSPC"))
NUMBERS = (1, 2, 3, 4, 6, 9, 14, 20, 35, 60, 200)
QUICK = (1, 2, 9)
LOADER = b"error while loading shared libraries"  # the fault came before the program
VERBS = {verb.name: verb for verb in faults_verbs.MMSQL_VERBS}
NAMES = ("mmsql convert", "mmsql convert --append", "mmsql convert (zip)", "mmsql flamegraph",
         "mmsql pprof",
         "mmsql query of a database")


def can_trace():
    with contextlib.suppress(OSError):
        return lib.run("strace", "-f", "-o", "/dev/null", "-e", "inject=fsync:error=EIO",
                       "true").returncode == 0
    return False


class Calls(unittest.TestCase):
    def check(self, name, prefixes):
        """Runs the verb behind each of the commands `prefixes`. Returns the number of runs with
        each outcome."""
        outcomes = collections.Counter()
        with faults.Stage(VERBS[name]) as stage:
            for prefix in prefixes:
                with self.subTest(verb=name, prefix=prefix):
                    done = stage.run(prefix)
                    if LOADER in done.stderr:
                        stage.restore()
                    else:
                        outcomes[stage.outcome(done)] += 1
        strangers.figure(self, f"{name}: {dict(outcomes)}")
        self.assertGreater(outcomes["error"], 0, name)
        self.assertGreater(outcomes["done"], 0, name)

    def check_calls(self, numbers):
        if not can_trace():
            self.skipTest(
                "needs strace, which scripts/install-deps installs, and to be allowed to trace")
        for name in NAMES:
            self.check(name,
                       [("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                         f"inject={call}:error={error}:when={number}")
                        for call, error in FAULTS for number in numbers])

    def test_calls_that_fail(self):
        self.check_calls(QUICK)

    @lib.long_test
    def test_many_calls_that_fail(self):
        self.check_calls(NUMBERS)

    @lib.needs_program("prlimit")
    def test_few_descriptors(self):
        for name in NAMES:
            self.check(name, [("prlimit", f"--nofile={n}") for n in (*range(3, 16), 64)])

    def test_killed(self):
        """At any moment, the output is the whole old one or the whole new one."""
        seed = random.randrange(1 << 32)
        choose = random.Random(seed)
        for name in NAMES[:-1]:
            with faults.Stage(VERBS[name]) as stage, self.subTest(verb=name, seed=seed):
                [output] = stage.verb.outputs
                began = time.monotonic()
                stage.outcome(stage.run())
                lasts = time.monotonic() - began
                for _ in range(10):
                    with lib.Popen(stage.argv, cwd=stage.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL) as process:
                        time.sleep(choose.uniform(0, lasts))
                        process.kill()
                        process.stdout.read()
                    if (stage.folder / output).read_bytes() != stage.before[output]:
                        self.assertEqual(stage.verb.answer(stage.folder, process)[0],
                                         stage.expected[0])
                    stage.restore()


if __name__ == "__main__":
    unittest.main()
