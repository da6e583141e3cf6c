# SPDX-License-Identifier: Apache-2.0
"""mmsql where the machine gives less than it wants: address space, threads, names, room for files.

Each conversion is done, or fails with a sentence and leaves nothing behind.
"""
import os
import pathlib
import resource
import shutil
import tempfile
import unittest

import lib

TRACE = lib.ROOT / "tests" / "golden" / "mm_pressure.pftrace"
FREE_UID = 61234  # nobody else's, so that its processes can be counted
MIB = 1 << 20


class Limits(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="limits-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def convert(self, output=None, **options):
        """The exit code is 0 or 1; what failed has said one line, and left nothing."""
        output = output or self.dir / "out.db"
        folder = pathlib.Path(options.pop("folder", self.dir))
        done = lib.run(lib.MMSQL, "convert", "-q", TRACE, "-o", output, **options)
        self.assertIn(done.returncode, (0, 1), done)
        self.assertEqual(done.stderr.count("\n"), done.returncode, done.stderr)
        self.assertEqual(sorted(os.listdir(folder)), ["out.db"] if done.returncode == 0 else [], done.stderr)
        return done


class AddressSpace(Limits):
    def limited(self, mib):
        with_limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))
        return self.convert(preexec_fn=with_limit)

    @unittest.skipIf(lib.is_sanitized(), "sanitizers take the whole address space")
    def test_from_64_mib_up_a_trace_converts(self):
        sizes = set()
        for mib in (64, 65, 80, 128, 255, 1024, 8192):
            with self.subTest(mib=mib):
                self.assertEqual(self.limited(mib).returncode, 0)
                sizes.add((self.dir / "out.db").stat().st_size)
                (self.dir / "out.db").unlink()
        self.assertEqual(len(sizes), 1)

    @unittest.skipIf(lib.is_sanitized(), "sanitizers take the whole address space")
    def test_below_that_it_works_or_says_what_it_needs(self):
        for mib in range(16, 64, 3):
            with self.subTest(mib=mib):
                done = self.limited(mib)
                if done.returncode:
                    self.assertIn(f"limited to {mib} MiB, ulimit -v; 64 MiB and four times", done.stderr)
                else:
                    (self.dir / "out.db").unlink()


class Resources(Limits):
    def test_long_paths(self):
        """The folder of the conversion, and the files in it, have longer names than the output."""
        folder = self.dir
        while len(str(folder)) < 3900:
            folder /= "d" * 90
        at = os.open(self.dir, os.O_RDONLY | os.O_DIRECTORY)
        for part in folder.relative_to(self.dir).parts:
            os.mkdir(part, dir_fd=at)
            step = os.open(part, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = step
        self.addCleanup(os.close, at)
        for size in (4060, 4065, 4066, 4067, 4068, 4070, 4072, 4078, 4090, 4096, 5000):
            with self.subTest(size=size):
                done = self.convert(f"{folder}/{'x' * (size - len(str(folder)) - 1)}", folder=f"/proc/self/fd/{at}")
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, ": (File name too long|unable to open database file)$")

    @lib.needs_root
    def test_no_thread(self):
        def alone():
            os.setgid(FREE_UID)
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
            os.setuid(FREE_UID)
        os.chown(self.dir, FREE_UID, FREE_UID)
        if lib.run(lib.MMSQL, "--version", preexec_fn=alone).returncode:
            self.skipTest("another user cannot run the build")
        done = self.convert(preexec_fn=alone)
        self.assertEqual(done.returncode, 1, "a thread was started in spite of the limit")
        self.assertIn("no thread can be started: Resource temporarily unavailable", done.stderr)

    @lib.needs_namespaces
    def test_no_inodes(self):
        """One after the other is left for the conversion, until it succeeds."""
        codes = []
        for free in (0, 1, 2, 3, 4, 6, 9, 200):
            script = (f"mount -t tmpfs -o size=64m,nr_inodes={free + 1} tmpfs {self.dir} && cd {self.dir} && "
                      f"{lib.MMSQL} convert -q {TRACE} -o out.db; code=$?; echo; ls -A; exit $code")
            done = lib.run("unshare", "--mount", "sh", "-c", script)
            codes.append(done.returncode)
            with self.subTest(free=free):
                left = done.stdout.split()
                self.assertEqual(left, ["out.db"] if done.returncode == 0 else [])
                if done.returncode:
                    self.assertIn("no space left", done.stderr.lower())
        self.assertEqual(codes, sorted(codes, reverse=True))
        self.assertEqual(set(codes), {0, 1})


if __name__ == "__main__":
    unittest.main()
