# SPDX-License-Identifier: Apache-2.0
"""A file beside the output has the samples that `mmtrace heap`, `cpu` and `faults` have taken. A
recorder that is killed leaves this file, and the older output."""
import os
import pathlib
import shlex
import shutil
import stat
import subprocess
import tempfile
import unittest

import lib
import states
from lib import MMTRACE, run, wait_for
from test_heap import TRUTH
from test_heap_service import Service

UID = 65534
IMPORTS = ("python3", "-c", "import json, time; import unittest; time.sleep(4)")


class Saves(Service):
    def setUp(self):
        super().setUp()
        self.part = self.dir / "heap.pftrace.part"

    def record(self, *argv, verb="heap", **more):
        earlier = self.part.stat().st_ino if self.part.exists() else 0
        recorder = self.start(MMTRACE, verb, "-o", self.trace, *argv, **more)
        wait_for(lambda: recorder.poll() is not None
                 or (self.part.exists() and self.part.stat().st_ino != earlier), "a copy")
        self.assertTrue(self.part.exists(), recorder.poll() is not None and recorder.stderr.read())
        return recorder

    def names(self):
        return sorted(os.listdir(self.dir))

    def kill(self, recorder):
        recorder.kill()
        recorder.wait()
        # a copy that is just being made becomes complete
        wait_for(lambda: not any(".part-" in name for name in self.names()), "the last copy")

    def check_profile(self, trace, function="keep_large"):
        taken = self.query("select sum(size), count(distinct ts) from heap_profile_allocation "
                           "where size > 0", trace)
        self.assertGreater(taken[0][0], 0)
        self.assertEqual(taken[0][1], 1)
        stacks = run(lib.MMSQL, "flamegraph", "--folded", trace)
        self.assertIn(function, stacks.stdout, stacks.stderr)

    def test_a_killed_recorder_leaves_a_profile(self):
        self.trace.write_text("older")
        target = self.start(TRUTH, "1", "50000000")
        self.kill(self.record("-p", target.pid))
        self.assertEqual(self.trace.read_text(), "older")
        self.check_profile(self.part)
        # The next recording has the process, and keeps the copy.
        before = self.part.read_bytes()
        again = self.record("-p", target.pid)
        said = self.end(again)
        self.assertIn("heap.pftrace.part of an earlier recording is now ", said)
        self.assertEqual(self.names(), ["heap.db", "heap.pftrace", "heap.pftrace.part.old"])
        self.assertEqual(pathlib.Path(f"{self.part}.old").read_bytes(), before)
        self.check_profile(self.trace)

    def test_copies_change_nothing_in_the_recording(self):
        target = self.start(TRUTH, "1", "50000000")
        recorder = self.record("-p", target.pid)
        first = self.part.stat().st_ino
        wait_for(lambda: self.part.stat().st_ino != first, "a second copy")
        self.end(recorder)
        self.assertEqual(self.names(), ["heap.pftrace"])
        self.check_profile(self.trace)
        self.assertEqual(self.n_dumps(), 1)
        kinds = [event for packet in lib.of_kind(lib.decode(self.trace), "service_event")
                 for event in packet.one("service_event")]
        self.assertEqual(kinds.count("flush_started"), 1, kinds)

    @lib.needs_root
    def test_a_killed_recorder_of_stacks(self):
        self.start(TRUTH, "1", "300000000")
        for verb, argv in (("cpu", ("-F", 500)), ("faults", ())):
            with self.subTest(verb):
                self.kill(self.record(*argv, verb=verb))
                taken = self.query("select count(*) from perf_sample", self.part)
                self.assertGreater(taken[0][0], 0)
                self.part.unlink()

    def test_outputs_that_are_no_new_files(self):
        """A link and a pipe stay; a file in a folder without rights is written in its place."""
        other = self.dir / "other"
        self.trace.symlink_to(other)
        done = run(MMTRACE, "heap", "-q", "-o", self.trace, "--", TRUTH, "1", "1000000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(self.trace.is_symlink())
        self.check_profile(other)
        self.trace.unlink()
        other.unlink()
        os.mkfifo(self.trace)
        with subprocess.Popen(["cat", self.trace], stdout=subprocess.PIPE) as reader:
            done = run(MMTRACE, "heap", "-q", "-o", self.trace, "--", TRUTH, "1", "1000000")
            other.write_bytes(reader.communicate(timeout=60)[0])
        self.assertTrue(stat.S_ISFIFO(self.trace.lstat().st_mode))
        self.check_profile(other)

    def heap_of_other_user(self, *argv):
        return subprocess.run([MMTRACE, "heap", "-q", "-o", self.trace, "--", *argv], user=UID,
                              group=UID, extra_groups=[], capture_output=True, text=True,
                              check=False)

    @lib.needs_root
    def test_a_folder_without_rights(self):
        self.dir.chmod(0o755)
        self.trace.touch()
        os.chown(self.trace, UID, UID)
        done = self.heap_of_other_user(TRUTH, "1", "1000000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.names(), ["heap.pftrace"])
        self.check_profile(self.trace)
        older = self.trace.read_bytes()
        done = self.heap_of_other_user("/nonexistent")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.trace.read_bytes(), older)
        done = self.heap_of_other_user(TRUTH, "1", "1000000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(self.trace.read_bytes(), older)
        self.check_profile(self.trace)
        self.trace.unlink()
        done = self.heap_of_other_user("true")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.trace}: Permission denied", done.stderr)

    def record_on_small_disk(self, size, *fill):
        """Records on a disk of this size. Returns the messages, and what is on the disk then."""
        script = (f"mount -t tmpfs -o size={size} tmpfs {self.dir} && cd {self.dir} && "
                  f"{' '.join(fill)} {MMTRACE} heap -i 64 -o heap.pftrace -- "
                  f"{shlex.join(IMPORTS)}; echo code $?; ls; "
                  f"cp -a . {self.copies}")
        done = run("unshare", "--mount", "sh", "-c", script)
        self.assertRegex(done.stderr, r"heap\.pftrace\S*: No space left on device")
        self.assertRegex(done.stdout, r"^code 1\n")
        return done

    @lib.needs_root
    def test_a_disk_that_is_full(self):
        """The recorder says once that it cannot save the profile, and leaves the older one. If the
        disk has room for a copy, but not for a second one, the copy stays."""
        self.copies = pathlib.Path(tempfile.mkdtemp(prefix="heap-copies-"))
        self.addCleanup(shutil.rmtree, self.copies)
        done = self.record_on_small_disk("64k", "echo older > heap.pftrace;",
                                         "head -c 56K /dev/zero > large;")
        self.assertEqual(done.stderr.count("the profile so far is not saved: "), 1, done.stderr)
        self.assertEqual((self.copies / "heap.pftrace").read_text(), "older\n")
        (self.copies / "heap.pftrace").unlink()
        run(MMTRACE, "heap", "-i", "64", "-o", self.trace, "--", *IMPORTS)
        size = self.trace.stat().st_size
        self.record_on_small_disk(3 * size // 2)
        self.check_profile(self.copies / "heap.pftrace.part", "")


if __name__ == "__main__":
    unittest.main()
