#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pintool lock`, `preload` and `measure`: their effect on the page cache, as the kernel shows
it."""
import os
import pathlib
import select
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import lib

PINTOOL = lib.BUILD / "producer" / "pintool" / "pintool"
PAGE = os.sysconf("SC_PAGE_SIZE")


def drop(path):
    """Drops a file's pages from the page cache, except pages that a process holds."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def resident(path):
    """The resident byte ranges of a file, as pintool's probe finds them."""
    shown = lib.run(PINTOOL, "file", path, "--gen-probe", "--dump")
    assert shown.returncode == 0, shown.stderr
    pairs = [dict(word.split("=") for word in line.split()) for line in shown.stdout.splitlines()
             if line.startswith("file_offset=")]
    return [(int(p["file_offset"]), int(p["total_bytes"])) for p in pairs]


def pages(ranges):
    return {i for start, size in ranges for i in range(start // PAGE, (start + size) // PAGE)}


class FileTest(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory(dir=lib.BUILD)
        self.addCleanup(self.tmp.cleanup)
        self.file = pathlib.Path(self.tmp.name) / "data"
        self.file.write_bytes(os.urandom(400 * PAGE))
        self.list = pathlib.Path(self.tmp.name) / "pinlist.meta"
        drop(self.file)

    def write_list(self, *pairs):
        self.list.write_bytes(b"".join(struct.pack(">II", *pair) for pair in pairs))

    def start(self, *argv):
        process = subprocess.Popen([PINTOOL, *argv], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertTrue(select.select([process.stdout], [], [], 30)[0])
        return process, process.stdout.readline()


class HoldTest(FileTest):
    def test_preload_reads_the_ranges_and_nothing_else(self):
        self.write_list((3 * PAGE, 5 * PAGE), (100 * PAGE + 7, PAGE))
        done = lib.run(PINTOOL, "preload", self.list, self.file)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, f"preloaded ranges=2 bytes={7 * PAGE} file={self.file}\n")
        self.assertEqual(pages(resident(self.file)), {3, 4, 5, 6, 7, 100, 101})

    def test_locked_pages_stay_until_the_end(self):
        self.write_list((10 * PAGE, 20 * PAGE))
        process, line = self.start("lock", self.list, self.file)
        self.assertEqual(line, f"locked ranges=1 bytes={20 * PAGE} file={self.file}\n")
        with open(self.file, "rb") as file:
            file.read()
        drop(self.file)
        self.assertEqual(pages(resident(self.file)), set(range(10, 30)))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=30), 0)
        drop(self.file)
        self.assertEqual(resident(self.file), [])

    def test_a_lock_may_have_an_end(self):
        self.write_list((0, PAGE))
        start = time.monotonic()
        done = lib.run(PINTOOL, "lock", "-q", "--time", "0.3s", self.list, self.file)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertGreaterEqual(time.monotonic() - start, 0.3)

    def test_ranges_after_the_end_are_reported(self):
        self.write_list((399 * PAGE, 3 * PAGE), (800 * PAGE, PAGE))
        done = lib.run(PINTOOL, "preload", self.list, self.file)
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"{3 * PAGE} bytes lie beyond the end", done.stderr)
        self.assertEqual(pages(resident(self.file)), {399})

    def test_a_broken_list_locks_nothing(self):
        self.list.write_bytes(b"\0" * 12)
        for verb in ("lock", "preload"):
            done = lib.run(PINTOOL, verb, self.list, self.file)
            self.assertEqual(done.returncode, 1)
            self.assertIn("pinlist.meta", done.stderr)
        self.assertEqual(lib.run(PINTOOL, "lock", self.list).returncode, 2)
        self.assertEqual(resident(self.file), [])

    def test_measure_shows_what_the_command_reads_and_nothing_else(self):
        self.file.read_bytes()
        done = lib.run(PINTOOL, "measure", self.file, "--dump", "-o", self.list, "--",
                       "dd", f"if={self.file}", "of=/dev/null", f"bs={PAGE}", "skip=70", "count=2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"resident(B)={2 * PAGE} ", done.stdout)
        self.assertIn(f"file_offset={70 * PAGE} total_bytes={2 * PAGE}", done.stdout)
        self.assertEqual(struct.unpack(">II", self.list.read_bytes()), (70 * PAGE, 2 * PAGE))

    def test_measure_reports_although_the_command_fails(self):
        done = lib.run(PINTOOL, "measure", self.file, "--", "sh", "-c", "exit 3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("resident(B)=0 ", done.stdout)
        self.assertIn("sh: exit code 3", done.stderr)
        self.assertEqual(lib.run(PINTOOL, "measure", self.file, "--", "/nonexistent").returncode, 1)
        for wrong in (["measure", self.file], ["measure", self.file, "--"],
                      ["measure", "--", "true"]):
            self.assertEqual(lib.run(PINTOOL, *wrong).returncode, 2, wrong)


@lib.needs_root
class ReadAheadTest(FileTest):
    """Read-ahead is a setting of the whole machine. The test restores the old value even if pintool
    does not."""

    def setUp(self):
        super().setUp()
        device = os.stat(self.file).st_dev
        block = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
        settings = [p / "queue" / "read_ahead_kb" for p in (block, block.parent)]
        self.setting = next((p for p in settings if p.exists()), None)
        if not self.setting:
            self.skipTest(f"{self.file} lies on no block device with a read-ahead")
        self.before = self.setting.read_text()
        if int(self.before) == 0:
            self.skipTest("read-ahead is off")
        self.addCleanup(self.setting.write_text, self.before)

    def wait_until_restored(self):
        end = time.monotonic() + 10
        while self.setting.read_text() != self.before and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(self.setting.read_text(), self.before)

    def test_off_while_the_command_runs(self):
        done = lib.run(PINTOOL, "measure", self.file, "--", "cat", self.setting)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.split()[0], "0")
        self.assertEqual(self.setting.read_text(), self.before)
        done = lib.run(PINTOOL, "measure", "--read-ahead", self.file, "--", "cat", self.setting)
        self.assertEqual(done.stdout.split()[0], self.before.strip())

    def test_restored_although_pintool_is_killed(self):
        for number in (signal.SIGKILL, signal.SIGTERM):
            process, line = self.start("measure", self.file, "--", "sh", "-c",
                                       f"cat {self.setting}; exec sleep 2")
            self.assertEqual(line, "0\n")
            process.send_signal(number)
            process.wait(timeout=30)
            self.wait_until_restored()

    def test_two_at_once_are_refused(self):
        process, line = self.start("measure", self.file, "--", "sh", "-c", "echo up; exec sleep 2")
        self.assertEqual(line, "up\n")
        other = lib.run(PINTOOL, "measure", self.file, "--", "true")
        self.assertEqual(other.returncode, 1)
        self.assertIn("held by another pintool", other.stderr)
        self.assertEqual(process.wait(timeout=30), 0)
        self.wait_until_restored()


if __name__ == "__main__":
    unittest.main()
