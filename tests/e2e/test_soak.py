# SPDX-License-Identifier: Apache-2.0
"""The soak test of soak.py: half a minute of it here, an hour in ./check --long."""
import os
import pathlib
import sys
import tempfile
import unittest

import lib
import soak

ALONE = "its pressure is that of the whole machine, and its figures are those of a daemon that nobody else disturbs"
QUICK_S = 25
LONG_S = 3600


@lib.needs_root
@lib.needs_tracefs
class Soak(unittest.TestCase):
    def test_nothing_grows_and_no_trigger_is_lost(self):
        seconds = LONG_S if os.environ.get("MMTRACE_LONG") == "1" else QUICK_S
        if lib.is_sanitized():
            self.skipTest("a sanitizer takes memory itself")
        with tempfile.TemporaryDirectory(prefix="mmtrace-soak-", dir="/var/tmp") as folder:
            print(soak.run(seconds, folder))

    @lib.long_test
    def test_in_a_memory_cgroup(self):
        """The pressure is inside the group: the kernel reclaims there."""
        with lib.memory_cgroup(256 << 20):
            pass  # or skipped
        done = lib.run(sys.executable, "-B", soak.__file__, "--memory-limit", "2048", "25", timeout_s=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r" [1-9]\d* times pressure")


class Groups(unittest.TestCase):
    def test_reclaims_of_both_versions(self):
        with tempfile.TemporaryDirectory() as folder:
            group = pathlib.Path(folder)
            (group / "memory.events").write_text("low 0\nhigh 3\nmax 17\noom 0\noom_kill 0\n")
            self.assertEqual(soak.n_reclaims(group), 17)
            (group / "memory.failcnt").write_text("5\n")
            self.assertEqual(soak.n_reclaims(group), 5)


if __name__ == "__main__":
    unittest.main()
