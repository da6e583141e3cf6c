# SPDX-License-Identifier: Apache-2.0
"""The soak test of soak.py: two minutes of it here, an hour in ./check --long."""
import os
import pathlib
import sys
import tempfile
import unittest

import lib
import soak

BESIDE = ("it takes two minutes, mostly waits, and has sockets, folders and a memory cgroup of its "
          "own: neither its strangers nor its pressure reach other tests")
QUICK_S = 120
LONG_S = 3600
LIMIT_MIB = 2048


@lib.needs_root
@lib.needs_tracefs
class Soak(unittest.TestCase):
    def test_nothing_grows_and_no_trigger_is_lost(self):
        """The pressure is inside the memory cgroup: the kernel reclaims there."""
        if lib.is_sanitized():
            self.skipTest("a sanitizer takes memory itself")
        with lib.memory_cgroup(LIMIT_MIB << 20):
            pass  # or skipped
        seconds = LONG_S if os.environ.get("MMTRACE_LONG") == "1" else QUICK_S
        with tempfile.TemporaryDirectory(prefix="mmtrace-soak-", dir="/var/tmp") as folder:
            done = lib.run(sys.executable, "-B", soak.__file__, "--memory-limit", str(LIMIT_MIB),
                           str(seconds), folder, timeout_s=seconds + 600)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r" [1-9]\d* times pressure")
        print(done.stdout.splitlines()[-1])


class Groups(unittest.TestCase):
    def test_reclaims_of_both_versions(self):
        with tempfile.TemporaryDirectory() as folder:
            group = pathlib.Path(folder)
            (group / "memory.events").write_text("low 0\nhigh 3\nmax 17\noom 0\noom_kill 0\n")
            self.assertEqual(soak.n_reclaims(group), 17)
            (group / "memory.failcnt").write_text("5\n")
            self.assertEqual(soak.n_reclaims(group), 5)

    @lib.needs_root
    @lib.needs_namespaces
    def test_the_newer_version_alone(self):
        """v2 has the memory controller only if v1 does not have it: the group is limited, or a
        message says that it is not."""
        look = ("import sys; sys.path.insert(0, sys.argv[1]); import soak, lib\n"
                "print(soak.n_group_reclaims())\n"
                "with lib.memory_cgroup(64 << 20) as enter: enter(); "
                "print(soak.n_group_reclaims())")
        only = ('umount -l /sys/fs/cgroup 2> /dev/null; mount -t cgroup2 none /sys/fs/cgroup || '
                'exit 99; cat /sys/fs/cgroup/cgroup.controllers; exec "$@"')
        inside = ("unshare", "--mount", "sh", "-c", only, "sh", sys.executable, "-B")
        here = pathlib.Path(soak.__file__).parent
        done = lib.run(*inside, "-c", look, here)
        if done.returncode == 99:
            self.skipTest(f"cgroup v2 cannot be mounted: {done.stderr}")
        if "memory" in done.stdout.split("\n")[0].split():
            self.assertEqual(done.stdout.split("\n")[2:], ["0", ""], done.stderr)
            return
        self.assertEqual(done.stdout.split("\n")[1:], ["None", ""], done.stderr)
        done = lib.run(*inside, soak.__file__, "--memory-limit", "512", "1")
        self.assertEqual((done.returncode, done.stderr.strip()),
                         (1, "soak: --memory-limit: /sys/fs/cgroup: no memory cgroup can be made "
                             "here (needs root, and v1 or v2 with its memory controller)"))


if __name__ == "__main__":
    unittest.main()
