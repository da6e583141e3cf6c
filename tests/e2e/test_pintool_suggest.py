#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pintool suggest` chooses the pages that were evicted and read back in a recording."""
import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import zipfile

import lib
import states

PINTOOL = lib.BUILD / "producer" / "pintool" / "pintool"
PAGE = os.sysconf("SC_PAGE_SIZE")
PERIOD_S = 0.1
SAMPLES = """
buffers {{ size_kb: 65536 fill_policy: RING_BUFFER }}
data_sources {{ config {{ name: "linux.page_residency"
    page_residency_config {{ paths: "{path}" period_ms: 100 }} }} }}
"""
EVENTS = """
data_sources { config { name: "linux.ftrace" ftrace_config { buffer_size_kb: 16384
    ftrace_events: "filemap/mm_filemap_add_to_page_cache"
    ftrace_events: "filemap/mm_filemap_delete_from_page_cache" } } }
"""


class SuggestTest(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory(dir=lib.BUILD)
        self.addCleanup(self.tmp.cleanup)
        self.dir = pathlib.Path(self.tmp.name)
        self.file = self.dir / "app.apk"
        self.list = self.dir / "pinlist.meta"
        with zipfile.ZipFile(self.file, "w") as archive:
            archive.writestr("lib/hot.so", os.urandom(200 * PAGE))
            archive.writestr("res/cold.bin", os.urandom(200 * PAGE))
        self.fd = os.open(self.file, os.O_RDONLY)
        self.addCleanup(os.close, self.fd)
        os.fsync(self.fd)
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_RANDOM)
        self.evict(0, 0)

    def bring_in(self, first, n):
        for page in range(first, first + n):
            os.pread(self.fd, 1, page * PAGE)

    def evict(self, first, n):
        os.posix_fadvise(self.fd, first * PAGE, n * PAGE, os.POSIX_FADV_DONTNEED)

    def record(self, more=""):
        """Pages 40..59 go and come back five times, 300..309 once; 100..119 stay; 200..219 go for
        ever."""
        config, trace = self.dir / "config", self.dir / "trace"
        config.write_text(SAMPLES.format(path=self.file) + more)
        recorder = subprocess.Popen([lib.MMTRACE, "record", "-c", config, "-o", trace, "-t", "60s"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)

        def rounds(n=4):
            """Waits until the recorder has looked n times more. Shares of time need some time,
            too."""
            time.sleep(2 * PERIOD_S)
            states.wait_for_turns(recorder.pid, n)

        for first, n in ((40, 20), (100, 20), (200, 20), (300, 10)):
            self.bring_in(first, n)
        states.wait_for_recorder(recorder.pid)
        rounds(10)
        self.evict(200, 20)
        for i in range(5):
            self.evict(40, 20)
            if i == 1:
                self.evict(300, 10)
            rounds()
            self.bring_in(40, 20)
            if i == 3:
                self.bring_in(300, 10)
            rounds()
        recorder.send_signal(signal.SIGINT)
        self.assertEqual(recorder.wait(timeout=60), 0)
        return trace

    def suggest(self, recording, quota_pages, *more):
        self.list.unlink(missing_ok=True)
        return lib.run(PINTOOL, "suggest", recording, "--file", self.file, "--quota",
                       quota_pages * PAGE, "-o", self.list, *more)

    def chosen(self):
        pairs = struct.iter_unpack(">II", self.list.read_bytes())
        return {i for start, size in pairs
                for i in range(start // PAGE, -(-(start + size) // PAGE))}

    def check(self, trace):
        done = self.suggest(trace, 20, "--explain")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.chosen(), set(range(40, 60)))
        line = next(text for text in done.stdout.splitlines() if text.startswith("file_offset="))
        told = dict(word.split("=") for word in line.split())
        self.assertEqual(int(told["file_offset"]), 40 * PAGE)
        self.assertEqual(int(told["total_bytes"]), 20 * PAGE)
        self.assertEqual(told["entry"], "lib/hot.so")
        # A system that needs memory may evict pages, too.
        for times in ("times_evicted", "times_read_back"):
            self.assertTrue(5 <= float(told[times]) < 6, told)
        self.assertGreater(float(told["times_resident"]), 0)

        said = json.loads(self.suggest(trace, 20, "--json").stdout)
        self.assertEqual((said["path"], said["pinlist"]), (str(self.file), str(self.list)))
        self.assertEqual((said["total_bytes"], len(said["ranges"])), (20 * PAGE, 1))
        one = said["ranges"][0]
        self.assertEqual((one["file_offset"], one["bytes"], one["entry"]),
                         (40 * PAGE, 20 * PAGE, "lib/hot.so"))
        for times in ("times_evicted", "times_read_back"):
            self.assertTrue(5 <= one[times] < 6, one)
        self.assertEqual(one["reads"], said["reads"])
        self.assertLessEqual(said["reads"], said["reads_in_all"])

        # These ranges are also written for the next build.
        pins = self.dir / "pins.txt"
        self.assertEqual(self.suggest(trace, 20, "--emit-pinconfig", pins).returncode, 0)
        with zipfile.ZipFile(self.file) as archive:
            start = 30 + len("lib/hot.so")
            self.assertEqual(archive.getinfo("lib/hot.so").header_offset, 0)
        self.assertEqual(pins.read_text(),
                         f"file lib/hot.so\noffset {40 * PAGE - start}\nlen {20 * PAGE}\n")

        # A database serves as well as the trace. Pages that never came back are never chosen.
        db = self.dir / "db"
        self.assertEqual(lib.run(lib.MMSQL, "convert", "-q", trace, "-o", db).returncode, 0)
        self.assertEqual(self.suggest(db, 1000).returncode, 0)
        self.assertLessEqual(set(range(40, 60)), self.chosen())
        self.assertFalse(self.chosen() & set(range(200, 220)))
        self.assertEqual(self.suggest(db, 7).returncode, 0)
        # Pages that the system evicted once more come first, if there are such pages.
        self.assertLessEqual(self.chosen(), set(range(40, 60)))
        self.assertEqual(len(self.chosen()), 7)

    def test_from_samples(self):
        self.check(self.record())

    @lib.needs_tracefs
    def test_from_events_of_the_page_cache(self):
        trace = self.record(EVENTS)
        self.check(trace)
        self.assertNotIn("events=0", self.suggest(trace, 20).stdout)

    def test_errors_of_suggest(self):
        trace = self.record()
        other = self.dir / "other"
        other.write_bytes(b"x" * PAGE)
        base = ["suggest", trace, "--quota", "1m", "-o", self.list]
        done = lib.run(PINTOOL, *base, "--file", other)
        self.assertEqual(done.returncode, 1)
        self.assertIn("says nothing about it", done.stderr)
        done = lib.run(PINTOOL, *base, "--file", self.file, "--mmsql", "/nonexistent/mmsql")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent/mmsql", done.stderr)
        self.assertEqual(lib.run(PINTOOL, *base, "--file", self.dir / "none").returncode, 1)
        self.assertEqual(lib.run(PINTOOL, "suggest", other, *base[2:], "--file",
                                 self.file).returncode, 1)
        self.assertFalse(self.list.exists())
        for wrong in (base, ["suggest", "--file", self.file],
                      [*base, "--file", self.file, "--quota", "x"]):
            self.assertEqual(lib.run(PINTOOL, *wrong).returncode, 2, wrong)

        # The file may have had another name in the recording.
        done = lib.run(PINTOOL, *base, "--file", other, "--recorded-as", self.file)
        self.assertEqual(done.returncode, 0, done.stderr)
        moved = self.dir / "elsewhere" / self.file.name
        moved.parent.mkdir()
        moved.write_bytes(self.file.read_bytes())
        self.assertEqual(lib.run(PINTOOL, *base, "--file", moved).returncode, 0)
        self.assertLessEqual(set(range(40, 60)), self.chosen())


if __name__ == "__main__":
    unittest.main()
