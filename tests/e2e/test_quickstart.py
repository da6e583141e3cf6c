# SPDX-License-Identifier: Apache-2.0
"""./quickstart after its build step; and memory pressure always ends."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import lib

SCRIPTS = lib.ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS))
import load  # noqa: E402

GROUP_MIB = 256


def quickstart(output, *arguments, **options):
    return lib.run(sys.executable, "-B", SCRIPTS / "quickstart.py", "--build", lib.BUILD,
                   "--output", output, *arguments, timeout_s=300, **options)


@lib.needs_root
class Quickstart(unittest.TestCase):
    def setUp(self):
        # Not in /tmp: pages of a tmpfs cannot be dropped.
        self.tmp = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(self.tmp.cleanup)
        self.out = pathlib.Path(self.tmp.name)

    def check_output(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for text in ("[5/5]", "Verdict", "Recorded", "Reclaim and compaction", "Memory (vmstat)",
                     "Page cache of demo.bin", "Losses", "Next", "See it"):
            self.assertIn(text, done.stdout)
        self.assertEqual([line for line in done.stdout.splitlines() if len(line) > 80], [])
        for name in ("quickstart.cfg", "quickstart.pftrace", "quickstart.db", "quickstart.html"):
            self.assertGreater((self.out / name).stat().st_size, 0, name)

    def test_harmless(self):
        done = quickstart(self.out, "--seconds", "3")
        self.check_output(done)
        self.assertIn("compaction by", done.stdout)

    def test_pressure(self):
        done = quickstart(self.out, "--seconds", "4", "--pressure")
        self.check_output(done)
        if "place of the machine" in " ".join(done.stdout.split()):  # the machine is very busy
            self.assertIn("memory cgroup reclaim by", done.stdout)
            return
        self.assertIn("direct reclaim by", done.stdout)
        self.assertIn("mm_vmscan_kswapd_wake", done.stdout)

    def test_pressure_in_a_memory_cgroup(self):
        with lib.memory_cgroup(GROUP_MIB << 20) as join:
            done = quickstart(self.out, "--seconds", "4", "--pressure", preexec_fn=join)
        self.check_output(done)
        self.assertIn("memory cgroup reclaim by", done.stdout)
        self.assertIn("mm_vmscan_memcg_reclaim_begin", done.stdout)

    def test_unwritable_output(self):
        done = quickstart("/proc/nowhere", "--seconds", "3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("quickstart: ", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


class Arguments(unittest.TestCase):
    def test_a_wrong_argument_ends_the_script_before_the_build(self):
        done = lib.run(lib.ROOT / "quickstart", "--presure", timeout_s=300)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("--presure", done.stderr)
        self.assertNotIn("Building", done.stdout)


def readers(folder):
    """The processes that read a sparse file of the folder."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # a process that ends meanwhile
            for number in os.listdir(f"/proc/{pid}/fd"):
                link = os.readlink(f"/proc/{pid}/fd/{number}")
                if link.startswith(f"{folder}/mmtrace-pressure-"):
                    found.add(int(pid))
    return found


def times_full(group):
    """How often the memory cgroup was at its limit."""
    with contextlib.suppress(FileNotFoundError):  # v1
        return int((group / "memory.failcnt").read_text())
    events = dict(line.split() for line in (group / "memory.events").read_text().splitlines())
    return int(events["max"])


class Pressure(unittest.TestCase):
    """However pressure ends, no file and no process is left."""

    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(self.tmp.cleanup)
        self.folder = pathlib.Path(self.tmp.name).resolve()
        self.said = tempfile.TemporaryFile()
        self.addCleanup(self.said.close)

    def what_was_said(self):
        self.said.seek(0)
        return f"{len(readers(self.folder))} readers; {self.said.read().decode()}"

    def wait_for_more_than(self, n):
        lib.wait_for(lambda: len(readers(self.folder)) > n, self.what_was_said)

    def start(self, setting=""):
        code = f"import load\n{setting}\nload.pressure('{self.folder}', n_wanted=1 << 40)\n"
        child = subprocess.Popen([sys.executable, "-B", "-c", code], cwd=SCRIPTS,
                                 stderr=self.said)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        self.wait_for_more_than(load.N_READERS)
        self.assertEqual(list(self.folder.iterdir()), [])
        return child

    def check_signal(self, number):
        child = self.start()
        child.send_signal(number)
        child.wait(60)
        lib.wait_for(lambda: not readers(self.folder), "the end of the readers")

    def test_interrupt(self):
        self.check_signal(signal.SIGINT)

    def test_terminate(self):
        self.check_signal(signal.SIGTERM)

    def test_kill(self):
        self.check_signal(signal.SIGKILL)

    def test_time_limit(self):
        with self.assertRaisesRegex(OSError,
                                    r"read in 0.2 s, too few .*; the load of the machine is \d"):
            load.pressure(self.folder, limit_s=0.2, n_wanted=1 << 40)
        self.assertEqual(readers(self.folder), set())

    def test_a_group_takes_the_place_of_a_busy_machine(self):
        said = []
        with lib.memory_cgroup(load.GROUP_BYTES):
            pass  # or skip
        pids = load.pressure_anyway(self.folder, say=said.append, patience_s=0.2, n_wanted=1 << 40)
        self.assertGreaterEqual(len(pids), load.N_READERS)
        self.assertRegex(said[0], "too few .* A memory cgroup of 64 MiB takes the place of the")
        self.assertEqual(readers(self.folder), set())
        for root in ("memory", ".", "unified"):
            self.assertEqual(list((load.CGROUPS / root).glob(f"mmtrace-{os.getpid()}-*")), [])

    def test_a_group_is_full_although_a_reader_is_late(self):
        """The other reader goes through its file more than once meanwhile."""
        late = self.folder / "late"
        with lib.memory_cgroup(load.GROUP_BYTES) as join:
            def join_late():
                join()
                with contextlib.suppress(FileExistsError), open(late, "x") as file:
                    file.write(str(next(load.group_folders())[0]))
                    file.flush()
                    time.sleep(1)
            load.read_until(load.Goal(0, load.GROUP_BYTES), self.folder, 60, join_late)
            self.assertGreater(times_full(pathlib.Path(late.read_text())), 0)

    def test_more_readers_come(self):
        """A round of all readers would end the pressure, so a round is long here."""
        child = self.start("load.MORE_AFTER_S = 0.2\nload.BEYOND = 20")
        self.wait_for_more_than(2 * load.N_READERS)
        child.kill()
        lib.wait_for(lambda: not readers(self.folder), "the end of the readers")

    def test_file_system_without_pages_of_holes(self):
        lib.run("mount", "-t", "tmpfs", "tmpfs", self.folder)
        self.addCleanup(lib.run, "umount", self.folder)
        with mock.patch.object(load, "BEYOND",
                               0.05), self.assertRaisesRegex(OSError, "a tmpfs keeps no"):
            load.pressure(self.folder, n_wanted=1 << 40)

    def test_no_room_for_a_name(self):
        with self.assertRaises(OSError):
            load.pressure("/proc")


if __name__ == "__main__":
    unittest.main()
