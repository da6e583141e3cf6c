# SPDX-License-Identifier: Apache-2.0
"""./quickstart behind its build step, and that memory pressure always ends."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import lib

SCRIPTS = lib.ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS))
import load  # noqa: E402

MIN_FREE = pathlib.Path("/proc/sys/vm/min_free_kbytes")
RAISED_KB = 256


def quickstart(output, *arguments):
    return lib.run(sys.executable, "-B", SCRIPTS / "quickstart.py", "--build", lib.BUILD,
                   "--output", output, *arguments, timeout_s=300)


@lib.needs_root
class Quickstart(unittest.TestCase):
    def setUp(self):
        # Not in /tmp: pages of a tmpfs cannot be dropped.
        self.tmp = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(self.tmp.cleanup)
        self.out = pathlib.Path(self.tmp.name)
        self.min_free_kb = load.settled_min_free_kb()

    def tearDown(self):
        self.assertEqual(load.settled_min_free_kb(), self.min_free_kb)

    def check_output(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for text in ("[5/5]", "Recorded", "Reclaim and compaction", "Memory (vmstat)",
                     "Page cache of demo.bin", "Losses", "Next"):
            self.assertIn(text, done.stdout)
        self.assertEqual([line for line in done.stdout.splitlines() if len(line) > 80], [])
        for name in ("quickstart.cfg", "quickstart.pftrace", "quickstart.db"):
            self.assertGreater((self.out / name).stat().st_size, 0, name)

    def test_harmless(self):
        done = quickstart(self.out, "--seconds", "3")
        self.check_output(done)
        self.assertIn("compaction by", done.stdout)

    def test_pressure(self):
        done = quickstart(self.out, "--seconds", "12", "--pressure")
        self.check_output(done)
        self.assertIn("direct reclaim by", done.stdout)
        self.assertIn("mm_vmscan_kswapd_wake", done.stdout)

    def test_unwritable_output(self):
        done = quickstart("/proc/nowhere", "--seconds", "3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("quickstart: ", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


@lib.needs_root
class Restore(unittest.TestCase):
    """The raised value comes back however the process ends; a small raise is enough to see it."""

    def start(self, old_kb):
        code = ("import load, sys, time\n"
                "with load.restored_min_free() as old:\n"
                f"    load.MIN_FREE.write_text(str(old + {RAISED_KB}))\n"
                "    print('raised', flush=True)\n"
                "    time.sleep(30)\n")
        child = subprocess.Popen([sys.executable, "-B", "-c", code], cwd=SCRIPTS, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(child.stdout.close)
        self.assertEqual(child.stdout.readline().strip(), "raised")
        self.assertEqual(int(MIN_FREE.read_text()), old_kb + RAISED_KB)
        return child

    def check_signal(self, number):
        old_kb = load.settled_min_free_kb()
        child = self.start(old_kb)
        os.kill(child.pid, number)
        child.wait(60)
        self.assertEqual(load.settled_min_free_kb(), old_kb)

    def test_one_after_the_other(self):
        """The second waits, and does not take the first one's raised value for the one to put back."""
        old_kb = load.settled_min_free_kb()
        first = self.start(old_kb)
        code = "import load\nprint(load.settled_min_free_kb())\n"
        with subprocess.Popen([sys.executable, "-B", "-c", code], cwd=SCRIPTS, text=True,
                              stdout=subprocess.PIPE) as second:
            with self.assertRaises(subprocess.TimeoutExpired):
                second.wait(0.5)
            first.kill()
            first.wait(60)
            self.assertEqual(int(second.stdout.read()), old_kb)

    def test_interrupt(self):
        self.check_signal(signal.SIGINT)

    def test_terminate(self):
        self.check_signal(signal.SIGTERM)

    def test_kill(self):
        self.check_signal(signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
