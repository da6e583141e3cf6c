# SPDX-License-Identifier: Apache-2.0
"""mmtrace top: in a terminal (tmux), as lines, with other users' names, and beside a recording."""
import functools
import os
import pathlib
import pty
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import lib

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
HEADS = ("mmtrace top", "Stalled", "Memory", "Pages/s", "Events/s", "Reclaim")


def batch(*argv, before=(), **options):
    done = lib.run(*before, lib.MMTRACE, "top", "--batch", *argv, **options)
    if done.returncode:
        raise AssertionError(done.stderr)
    return [frame.splitlines() for frame in done.stdout.split("\n\n") if frame.strip()]


class Lines(unittest.TestCase):
    def setUp(self):
        # Reads of holes fill no page cache in a tmpfs.
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="top-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def test_frames(self):
        frames = batch("-n", "2", "-d", "500ms", "--no-reclaim", lib.MMTRACE, "/nonexistent")
        self.assertEqual(len(frames), 2)
        for frame in frames:
            self.assertLessEqual(max(map(len, frame)), 80)
            text = "\n".join(frame)
            for head in HEADS:
                self.assertIn(head, text)
            self.assertRegex(text, rf"\d+ %  {re.escape(str(lib.MMTRACE))}"[:60])
            self.assertIn("/nonexistent: No such file", text)
            self.assertNotIn("faults 0,", text, "the first frame has rates, too")
            self.assertRegex(text, r"(?m)^ +\d+ +[\d.]+[KMG] .*  \S")

    @lib.needs_root
    def test_without_rights(self):
        text = "\n".join(batch("-n", "1", before=NOBODY)[0])
        self.assertIn("Reclaim by task: needs root", text)
        self.assertRegex(text, r"(?m)^Memory +total")

    def test_names_of_others_are_harmless(self):
        """A name is any 15 bytes. The process is big, so that it is shown."""
        program = ("import ctypes, time, sys; ctypes.CDLL(None).prctl(15, b'\\x1b[2J\\x9bq\\n-x'); "
                   "a = bytearray(400 << 20); a[::4096] = b'x' * len(a[::4096]); print(1, "
                   "flush=True); time.sleep(60)")
        with lib.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as big:
            self.addCleanup(big.kill)
            big.stdout.readline()
            done = lib.run(lib.MMTRACE, "top", "--batch", "-n", "1", text=False)
            big.kill()
        self.assertIn(b"?[2J?q?-x", done.stdout)
        self.assertEqual([byte for byte in done.stdout if byte != 10 and not 32 <= byte < 127], [])

    @lib.needs_tracefs
    def test_reclaim_by_task(self):
        """A cgroup at its limit reclaims; the instance of tracefs is gone afterwards."""
        with open(self.dir / "file", "wb") as file:
            file.truncate(256 << 20)
        with lib.memory_cgroup(64 << 20) as join:
            with lib.Popen([lib.MMTRACE, "top", "--batch", "-d", "500ms"], stdout=subprocess.PIPE,
                           text=True) as top:
                self.addCleanup(top.kill)
                instances = functools.partial((lib.TRACEFS / "instances").glob,
                                              f"mmtrace-{top.pid}-*")
                lib.wait_for(lambda: list(instances()), "the instance")
                top.stdout.readline()
                reader = lib.Popen(["sh", "-c", f"while :; do cat {self.dir}/file; done"],
                                   stdout=subprocess.DEVNULL, preexec_fn=join)
                self.addCleanup(lambda: (reader.kill(), reader.wait()))
                deadline = time.monotonic() + 60
                for line in top.stdout:
                    if re.match(r" *\d+ +\d+ +[\d.]+ +[\d.]+  (cat|sh)$", line):
                        break
                    self.assertLess(time.monotonic(), deadline, "nobody reclaimed")
                top.terminate()
                top.stdout.read()
                self.assertEqual(top.wait(60), 0)
            reader.kill()
            reader.wait()
        self.assertEqual(list(instances()), [])

    def test_record(self):
        trace = self.dir / "t.pftrace"
        batch("-n", "4", "-d", "500ms", "--record", trace, lib.MMTRACE)
        packets = lib.decode(trace)
        self.assertGreater(len(lib.of_kind(packets, "sys_stats")), 1)
        self.assertTrue(lib.of_kind(packets, "process_tree"))
        self.assertTrue(lib.of_kind(packets, "page_residency"))
        done = lib.run(lib.MMTRACE, "top", "--batch", "-n", "1", "--record", "/nonexistent/x")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent/x", done.stderr)

    @unittest.skipIf(lib.is_sanitized(), "a sanitizer takes time of its own")
    def test_cost(self):
        """One sample a second takes less than 1 % of a processor."""
        def cost(frames):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            batch("-n", str(frames), "-d", "1s")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        start, all_of_it = cost(1), cost(4)
        self.assertLess((all_of_it - start) / 3, 0.01)

    def test_wrong_usage(self):
        for argv, reason in ((("-d", "1ms"), "not a time"), (("-n", "x"), "not a number"),
                             (["x"] * 17, "more than 16 files")):
            done = lib.run(lib.MMTRACE, "top", *argv)
            self.assertEqual(done.returncode, 2)
            self.assertIn(reason, done.stderr)

    def test_no_terminal(self):
        done = lib.run(lib.MMTRACE, "top", stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1)
        self.assertIn("not a terminal (--batch prints lines instead)", done.stderr)
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        done = subprocess.run([lib.MMTRACE, "top"], stdin=theirs, stdout=theirs,
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False,
                              env=dict(os.environ, TERM="dumb"))
        os.close(theirs)
        self.assertEqual(done.returncode, 1)
        self.assertIn('the terminal "dumb" cannot move its cursor', done.stderr)


@lib.needs_program("tmux")
class Terminal(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="top-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def tmux(self, *argv):
        done = lib.run("tmux", "-f", "/dev/null", "-S", self.dir / "socket", *argv)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def open(self, columns, rows, *options, variables=""):
        self.addCleanup(lib.run, "tmux", "-S", self.dir / "socket", "kill-server")
        command = (f"{variables} {lib.MMTRACE} top -d 500ms {' '.join(options)} "
                   f"2> {self.dir}/errors; echo $? > {self.dir}/code; sleep 60")
        self.tmux("new-session", "-d", "-x", columns, "-y", rows, command)
        self.wait_for("Pages/s")

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def wait_for(self, text):
        return lib.wait_for(lambda: shown if text in (shown := self.screen()) else None,
                            lambda: f"{text} on the screen:\n{self.screen()}")

    def end(self):
        self.tmux("send-keys", "q")
        lib.wait_for(lambda: (self.dir / "code").exists() and (self.dir / "code").read_text(),
                     "the end")
        self.assertEqual((self.dir / "code").read_text(), "0\n",
                         (self.dir / "errors").read_text())

    def test_keys(self):
        self.open(80, 24)
        shown = self.wait_for("[Size]")
        self.assertLessEqual(len(shown.rstrip("\n").splitlines()), 24)
        for head in HEADS:
            self.assertIn(head, shown)
        self.tmux("send-keys", "s")
        self.wait_for("[Growth/s]")
        self.tmux("send-keys", "h")
        self.assertNotIn("Cgroup", self.wait_for("sort processes by size"))
        self.tmux("send-keys", "h")
        self.wait_for("[Growth/s]")
        self.tmux("resize-window", "-x", "120", "-y", "50")
        lib.wait_for(lambda: len(self.screen().rstrip("\n").splitlines()) > 30, "a larger screen")
        self.tmux("resize-window", "-x", "30", "-y", "5")
        self.wait_for("too small")
        self.end()

    def test_colours(self):
        self.open(80, 24)
        self.assertRegex(self.screen("-e"), r"\x1b\[[\d;]*3[123]m")
        self.end()

    def test_the_end_of_a_recording(self):
        trace = self.dir / "t.pftrace"
        self.open(80, 24, "--record", str(trace))
        self.wait_for("[Size]")
        self.end()
        said = (self.dir / "errors").read_text()
        self.assertTrue(said.startswith(f"mmtrace: {trace}: recorded\n"), said)
        self.assertTrue(lib.of_kind(lib.decode(trace), "sys_stats"))

    def test_without_colours(self):
        self.open(80, 24, variables="NO_COLOR=1")
        self.assertNotRegex(self.screen("-e"), r"\x1b\[[\d;]*3[0-7]m")
        self.end()


if __name__ == "__main__":
    unittest.main()
