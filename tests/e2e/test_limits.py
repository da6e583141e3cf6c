# SPDX-License-Identifier: Apache-2.0
"""mmsql where the machine has too little: address space, threads, names, room for files.

Each conversion is done, or fails with a sentence and leaves nothing behind.
"""
import contextlib
import gzip
import os
import pathlib
import resource
import shutil
import sqlite3
import subprocess
import tempfile
import time
import unittest
import zipfile

import lib
from test_hostile import START, number, packet, text

TRACE = lib.ROOT / "tests" / "golden" / "mm_pressure.pftrace"
FREE_UID = 100000 + os.getpid() % 60000  # only this test's processes have this uid
MIB = 1 << 20


class Limits(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="limits-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def convert(self, output=None, **options):
        """The exit code is 0 or 1. After a failure, mmsql has printed one line and left no file."""
        output = output or self.dir / "out.db"
        folder = pathlib.Path(options.pop("folder", self.dir))
        done = lib.run(lib.MMSQL, "convert", "-q", TRACE, "-o", output, **options)
        self.assertIn(done.returncode, (0, 1), done)
        self.assertEqual(done.stderr.count("\n"), done.returncode, done.stderr)
        self.assertEqual(os.listdir(folder),
                         [pathlib.Path(output).name] if done.returncode == 0 else [], done.stderr)
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
                    self.assertIn(f"limited to {mib} MiB, ulimit -v; most traces need at most 64 "
                                  "MiB and four times", done.stderr)
                else:
                    (self.dir / "out.db").unlink()


class Resources(Limits):
    def test_long_paths(self):
        """The folder of the conversion has a longer name than the output, and is made in the open
        folder of the output."""
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
        for size in (4060, 4070, 4082, 4083, 4090, 4096, 5000):
            with self.subTest(size=size):
                name = "x" * (size - len(str(folder)) - 1)
                done = self.convert(f"{folder}/{name}", folder=f"/proc/self/fd/{at}")
                if size < 4096:
                    self.assertEqual(done.returncode, 0, done.stderr)
                    os.unlink(name, dir_fd=at)
                else:
                    self.assertRegex(done.stderr, ": File name too long$")

    def test_a_limit_of_file_sizes(self):
        """The kernel's signal would end mmsql before it can remove its folder."""
        for size in (512, 100 << 10, 64 * MIB):
            with self.subTest(size=size):
                done = self.convert(
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
                if size < MIB:
                    self.assertIn(": File too large", done.stderr)
                else:
                    self.assertEqual(done.returncode, 0)

    @lib.needs_tracefs
    @lib.needs_program("prlimit")
    def test_a_soft_limit_of_descriptors(self):
        """A recorder raises its own limit. A program that it starts has the former limit."""
        few = ("prlimit", "--nofile=12:4096")
        done = lib.run(*few, lib.MMTRACE, "record", "-t", "500ms", "-o", self.dir / "trace",
                       "sched/sched_switch")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("open files", done.stderr)
        done = lib.run(*few, lib.MMTRACE, "heap", "-o", self.dir / "heap", "--", "sh", "-c",
                       "ulimit -Sn")
        self.assertEqual((done.returncode, done.stdout), (0, "12\n"), done.stderr)

    @lib.needs_root
    def test_no_thread(self):
        def alone():
            os.setgid(FREE_UID)
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
            os.setuid(FREE_UID)
        os.chown(self.dir, FREE_UID, FREE_UID)
        try:
            runs = lib.run(lib.MMSQL, "--version", preexec_fn=alone).returncode == 0
        except OSError:
            runs = False
        if not runs:
            self.skipTest(
                "another user cannot run the build: it is in a folder that only its owner may "
                "enter")
        done = self.convert(preexec_fn=alone)
        self.assertEqual(done.returncode, 1, "a thread was started in spite of the limit")
        self.assertIn("no thread can be started: Resource temporarily unavailable", done.stderr)

    @lib.needs_namespaces
    def test_no_inodes(self):
        """The file system has a few more free inodes each time, until the conversion succeeds."""
        codes = []
        for free in (0, 1, 2, 3, 4, 6, 9, 200):
            script = (
                f"mount -t tmpfs -o size=64m,nr_inodes={free + 1} tmpfs {self.dir} "
                f"&& cd {self.dir} && {lib.MMSQL} convert -q {TRACE} -o out.db; code=$?; echo; "
                "ls -A; exit $code")
            done = lib.run("unshare", "--mount", "sh", "-c", script)
            codes.append(done.returncode)
            with self.subTest(free=free):
                left = done.stdout.split()
                if done.returncode and left:  # a part of the trace needs fewer temporary files
                    self.assertRegex(done.stderr,
                                     r"\(what is free\), is reached: .*; the rest is converted")
                elif done.returncode:
                    self.assertIn("no space left", done.stderr.lower())
                self.assertEqual(left, ["out.db"] if left or done.returncode == 0 else [])
        self.assertEqual(codes, sorted(codes, reverse=True))
        self.assertEqual(set(codes), {0, 1})


class FullDisk(Limits):
    HEAP = lib.ROOT / "tests" / "golden" / "heap_continuous.pftrace"

    @lib.needs_namespaces
    def test_the_old_file_stays(self):
        """The disk is full but for one page: each verb that writes a file leaves the old file."""
        for number, argv in enumerate((("convert", "-q", TRACE),
                                       ("convert", "-q", "--append", TRACE),
                                       ("pprof", self.HEAP), ("flamegraph", self.HEAP))):
            with self.subTest(argv=argv[:2]):
                old = self.dir / f"old{number}"
                lib.run(lib.MMSQL, "convert", "-q", self.HEAP, "-o", old)
                script = (
                    f"mount -t tmpfs -o size=16m tmpfs {self.dir}/disk && cp {old} "
                    f"{self.dir}/disk/old && head -c 64m /dev/zero >{self.dir}/disk/fill; "
                    f"{lib.MMSQL} {' '.join(map(str, argv))} -o {self.dir}/disk/old; echo $?; "
                    f"cmp {old} {self.dir}/disk/old && ls -A {self.dir}/disk")
                (self.dir / "disk").mkdir(exist_ok=True)
                done = lib.run("unshare", "--mount", "sh", "-c", script)
                self.assertEqual(done.stdout.split(), ["1", "fill", "old"], done.stderr)
                self.assertRegex(done.stderr, "mmsql: .*([Nn]o space left|disk is full|is reached)")


class Budgets(Limits):
    """Memory and output of a conversion end at --max-memory and --max-output; rows read until then
    are kept."""

    def setUp(self):
        super().setUp()
        self.db = self.dir / "db" / "out.db"
        self.db.parent.mkdir()

    def write(self, name, packets):
        path = self.dir / name
        path.write_bytes(gzip.compress(START + b"".join(packets), 6))
        return path

    def limited(self, path, *options, code=1):
        """Converts within limits. Returns the peak of memory without files, in bytes, and the
        messages."""
        argv = [str(lib.MMSQL), "convert", "-q", *map(str, options), str(path), "-o", str(self.db)]
        with lib.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
            peak = 0
            while process.poll() is None:
                with contextlib.suppress(OSError, IndexError):
                    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
                    peak = max(peak, int(status.split("RssAnon:")[1].split()[0]) << 10)
                time.sleep(0.01)
            said = process.stderr.read()
        self.assertEqual(process.returncode, code, said)
        self.assertEqual(os.listdir(self.db.parent), ["out.db"])
        return peak, said

    def query(self, sql):
        with contextlib.closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True)) as handle:
            return handle.execute(sql).fetchall()

    def kept(self, path, limit, said, option):
        self.assertIn(f"--max-{option}, ", said)
        self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])
        self.assertEqual(self.query("SELECT path FROM trace"), [(str(path),)])
        stops = self.query("SELECT name, idx FROM stats WHERE name GLOB 'mmsql_stopped_at_*'")
        self.assertEqual({idx for _, idx in stops}, {limit}, stops)
        self.assertIn("data_loss", [row[0] for row in self.query(
            "SELECT severity FROM stats WHERE name GLOB 'mmsql_stopped_at_*'")])

    @unittest.skipIf(lib.is_sanitized(), "sanitizers take memory themselves")
    def test_memory(self):
        """Each kind of growth: state of sequences, names, tracks, threads. None may pass the
        limit."""
        n = 200000
        state = text(12, text(2, number(1, 1) + text(2, b"x")))
        kinds = {
            "clears": (text(1, number(8, 1) + number(10, 1) + number(13, 3) + state)
                       for _ in range(n)),
            "sequences": (text(1, number(8, 1) + number(10, i + 2) + number(13, 1) + state)
                          for i in range(n)),
            "names": (packet(12, text(2, number(1, i) + text(2, b"n%d" % i)))
                      for i in range(2 * n)),
            "tracks": (packet(60, number(1, i + 1) + text(2, b"t")) for i in range(n)),
            "threads": (packet(2, text(2, number(1, i + 10) + number(2, 1) + number(3, 7)))
                        for i in range(n)),
        }
        for name, packets in kinds.items():
            with self.subTest(name):
                path = self.write(f"{name}.gz", packets)
                peak, said = self.limited(path, "--max-memory", "64m")
                self.assertLess(peak, 64 * MIB)
                self.kept(path, 1, said, "memory")

    def test_output(self):
        """The rows of one trace are many times larger than the trace; another trace inflates to
        many times its size."""
        event = number(9, 3) + number(11, 1) + text(23, b"e")
        path = self.write("events.gz", [packet(60, number(1, 1) + text(2, b"t"))] +
                          [packet(11, event, ts=2000 + i) for i in range(100000)])
        self.limited(path, "--max-output", "200m", code=0)
        whole = self.query("SELECT count(*) FROM slice")[0][0]
        _, said = self.limited(path, "--max-output", "8m")
        self.kept(path, 2, said, "output")
        self.assertGreater(self.query("SELECT count(*) FROM slice")[0][0], 1000)
        self.assertLess(self.query("SELECT count(*) FROM slice")[0][0], whole)
        self.assertLess(self.db.stat().st_size, 8 * MIB)
        padding = self.write("padding.gz", [packet(60, number(1, 1) + text(2, b"t"))] +
                             [text(1, text(900, bytes(1000)))] * 20000)
        _, said = self.limited(padding, "--max-output", "8m")
        self.kept(padding, 2, said, "output")

    def test_small_outputs(self):
        """The working files reach the limit in the middle of the conversion, which then begins
        again with less."""
        event = number(9, 3) + number(11, 1) + text(23, b"e")
        path = self.write("events.gz", [packet(60, number(1, 1) + text(2, b"t"))] +
                          [packet(11, event, ts=2000 + i) for i in range(100000)])
        done = lib.run(lib.MMSQL, "convert", "-q", "--max-output", "1m", path, "-o", self.db)
        self.assertEqual(done.returncode, 1)  # the empty tables need more than half of 1 MiB
        self.assertIn("1 MiB, is reached before anything is converted (give more)", done.stderr)
        self.assertFalse(self.db.exists())
        for mib in (2, 3, 4, 5, 6, 8):
            with self.subTest(mib=mib):
                _, said = self.limited(path, "--max-output", f"{mib}m")
                self.assertIn(f"--max-output, {mib} MiB, is reached", said)
                self.kept(path, 2, said, "output")
                self.assertGreater(self.query("SELECT count(*) FROM slice")[0][0], 1000 * mib)
                self.assertLessEqual(self.db.stat().st_size, mib * MIB)
                self.db.unlink()

    def test_verbs_that_convert(self):
        """The commands work on the part within the limit and end with exit code 1. An old file is
        replaced."""
        heap = (lib.ROOT / "tests" / "golden" / "heap_continuous.pftrace").read_bytes()
        event = number(9, 3) + number(11, 1) + text(23, b"e")
        path = self.write("events.gz", [heap, packet(60, number(1, 1) + text(2, b"t"))] +
                          [packet(11, event, ts=2 ** 40 + i) for i in range(50000)])
        out = self.dir / "out"
        for verb in (("flamegraph", "-o", out), ("pprof", "-o", out), ("memory",), ("query", "-q")):
            for limit in ("2m", "100m"):
                with self.subTest(verb=verb[0], limit=limit):
                    out.write_text("old")
                    sql = ["SELECT count(*) FROM heap_profile_allocation"] if verb[
                        0] == "query" else []
                    done = lib.run(lib.MMSQL, *verb, "--max-output", limit, "--max-memory", "256m",
                                   path, *sql,
                                   text=False)
                    self.assertEqual(done.returncode, int(limit == "2m"), done.stderr)
                    said = b"events.gz: --max-output, 2 MiB, is reached"
                    (self.assertIn if limit == "2m" else self.assertNotIn)(said, done.stderr)
                    written = out.read_bytes() if "-o" in verb else done.stdout
                    self.assertGreater(len(written), 10)
                    self.assertNotEqual(written, b"old")
            done = lib.run(lib.MMSQL, *verb, "--max-memory", "1k", path)
            self.assertEqual(done.returncode, 2)
            self.assertIn("not a size of at least 64 MiB", done.stderr)

    def test_small_outputs_of_several_files(self):
        """Joined traces count, too. A message names a file that has no room."""
        event = number(9, 3) + number(11, 1)
        traces = [self.write(f"{name}.gz", [packet(60, number(1, 1) + text(2, b"t"))] +
                             [packet(11, event + text(23, name.encode()), ts=2000 + i)
                              for i in range(20000)])
                  for name in "abcdef"]
        argv = ["--max-output", "4m", *traces]
        _, said = self.limited(argv.pop(), *argv)
        self.assertRegex(said, r"f.gz: --max-output, 4 MiB, is reached")
        self.assertRegex(said, r"b.gz: --max-output, 4 MiB, is reached")
        self.assertLessEqual(self.db.stat().st_size, 4 * MIB)
        self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])
        self.assertIn(self.query("SELECT count(*) FROM trace")[0][0], range(2, 7))
        self.assertGreater(self.query("SELECT count(*) FROM slice")[0][0], 20000)
        whole = self.db.read_bytes()
        done = lib.run(lib.MMSQL, "convert", "-q", "--append", "--max-output", "1m", traces[5],
                       "-o", self.db)
        self.assertEqual(done.returncode, 1)
        self.assertIn("out.db: --max-output, 1 MiB, is reached by the size of the old database "
                      "(give more)",
                      done.stderr)
        self.assertEqual(self.db.read_bytes(), whole)

    def test_the_same_each_time(self):
        """The progress of the writing thread does not decide which rows are kept."""
        maps = self.dir / "perf-7.map"
        maps.write_text(
            "".join(f"{4096 + 16 * i:x} 10 function_with_a_long_name_{i}\n" for i in range(50000)))
        kept = set()
        for _ in range(12):
            _, said = self.limited(TRACE, "--max-output", "1m", "--perf-map", maps)
            kept.add((self.db.stat().st_size, said))
            self.db.unlink()
        self.assertEqual(len(kept), 1, kept)

    def test_small_outputs_of_other_files(self):
        maps = self.dir / "perf-7.map"
        maps.write_text(
            "".join(f"{4096 + 16 * i:x} 10 function_with_a_long_name_{i}\n" for i in range(200000)))
        for argv in (("--perf-map",), (TRACE, "--perf-map")):
            for mib in (1, 2, 6):
                with self.subTest(argv=argv, mib=mib):
                    _, said = self.limited(maps, "--max-output", f"{mib}m", *argv)
                    self.assertRegex(said,
                                     f"perf(-7.|[ ])map: --max-output, {mib} MiB, is reached; "
                                     "(left out|converted)")
                    self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])
                    self.assertLessEqual(self.db.stat().st_size, mib * MIB)
                    self.db.unlink()
        _, said = self.limited(maps, "--max-output", "8m", "--perf-map")
        self.assertGreater(self.query("SELECT count(*) FROM perf_map_symbol")[0][0], 40000)

    @unittest.skipIf(lib.is_sanitized(), "sanitizers take memory themselves")
    def test_the_confined_verdict(self):
        """Conversions on behalf of root have little memory, and end in the same way."""
        state = text(12, text(2, number(1, 1) + text(2, b"x")))
        path = self.write("clears.gz",
                          [text(1, number(8, 1) + number(10, 1) + number(13, 3) + state)] * 1000000)
        with open(path, "rb") as trace:
            done = lib.run(lib.MMSQL, "verdict", "--confined", "-", stdin=trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        # 448 where there is as much
        self.assertRegex(done.stderr, r"--max-memory, \d+ MiB, is reached")

    def test_options(self):
        for option, value in (("--max-memory", "1m"), ("--max-memory", "x"), ("--max-output", "-1"),
                              ("--max-output", "9")):
            done = lib.run(lib.MMSQL, "convert", TRACE, "-o", self.db, option, value)
            self.assertEqual(done.returncode, 2)
            self.assertIn("not a size", done.stderr)

    def test_archives_and_several_files(self):
        """A message names the files that have no room. The files before them are loaded."""
        good = self.dir / "good.zip"
        padding = START + text(1, text(900, bytes(1000))) * 20000
        with zipfile.ZipFile(good, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(TRACE, "a.pftrace")
            archive.writestr("b.pftrace", padding)
            archive.writestr("c.pftrace", padding)
        _, said = self.limited(good, "--max-output", "24m")
        self.assertIn("good.zip!b.pftrace: --max-output", said)
        self.assertEqual(self.query("SELECT count(*) > 1000 FROM ftrace_event"), [(1,)])
        self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])


if __name__ == "__main__":
    unittest.main()
