# SPDX-License-Identifier: Apache-2.0
"""How a recorder protects itself: memory, priority, OOM score."""
import contextlib
import os
import pathlib
import re
import resource
import subprocess
import tempfile
import time
import unittest

import lib

CAP_SYS_RESOURCE, CAP_SYS_NICE, CAP_IPC_LOCK = 24, 23, 14
CONFIG = """buffers { size_kb: 256 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { vmstat_period_ms: 100 } } }
"""


def has_capability(number):
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"CapEff:\s*(\w+)", status)[1], 16) >> number & 1


def as_nobody(limit_bytes):
    def enter():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit_bytes, limit_bytes))
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    return enter


class Recorder(unittest.TestCase):
    def setUp(self):
        # the priority of the suite is not a choice for the recorder
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        if nice != 0 and os.geteuid() == 0:
            os.setpriority(os.PRIO_PROCESS, 0, 0)
            self.addCleanup(os.setpriority, os.PRIO_PROCESS, 0, nice)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o777)
        (self.folder / "config").write_text(CONFIG)
        (self.folder / "config").chmod(0o644)

    def start(self, *argv, **options):
        recorder = subprocess.Popen([str(arg) for arg in argv], stderr=subprocess.DEVNULL,
                                    **options)
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        return pathlib.Path(f"/proc/{recorder.pid}")

    def record(self, *prefix, **options):
        """Starts a recorder, and waits for the zero byte that it writes when it records."""
        done, tell = os.pipe()
        self.addCleanup(os.close, done)
        proc = self.start(*prefix, lib.MMTRACE, "record", "--no-daemon", "-c",
                          self.folder / "config", "--notify-fd", tell,
                          "-o", self.folder / "trace", pass_fds=[tell], **options)
        os.close(tell)
        self.assertEqual(os.read(done, 1), b"\0")
        lib.wait_for(lambda: self.locked_kb(proc) > 0 or not has_capability(CAP_IPC_LOCK),
                     "locked memory")
        return proc

    @staticmethod
    def locked_kb(proc):
        return int(re.search(r"VmLck:\s*(\d+)", (proc / "status").read_text())[1])

    @staticmethod
    def nice(proc):
        return os.getpriority(os.PRIO_PROCESS, int(proc.name))

    @lib.needs_root
    def test_as_root(self):
        proc = self.record(start_new_session=True)
        if has_capability(CAP_SYS_NICE):
            lib.wait_for(lambda: self.nice(proc) == -10, "priority")
            if (proc / "autogroup").exists():
                lib.wait_for(lambda: (proc / "autogroup").read_text().split()[-1] == "-10",
                             "priority of the session")
        score = "-900" if has_capability(CAP_SYS_RESOURCE) else "0"
        self.assertEqual((proc / "oom_score_adj").read_text().strip(), score)
        rollup = (proc / "smaps_rollup").read_text()
        own, locked = (int(re.search(rf"{name}:\s*(\d+)", rollup)[1]) for name in ("Pss", "Locked"))
        self.assertGreater(locked, own * 0.95)

    @lib.needs_root
    def test_children_do_not_share_it(self):
        """The child that makes the verdict is in another session, without the priority and the
        locked memory."""
        if not has_capability(CAP_SYS_NICE):
            self.skipTest("needs CAP_SYS_NICE")
        (self.folder / "armed").mkdir()
        (self.folder / "armed" / "short.cfg").write_text(CONFIG + "duration_ms: 300\n")
        proc = self.start(lib.MMTRACE, "daemon", "--no-ipc", "--armed", self.folder / "armed",
                          "--kmem-events", "none",
                          "--psi", "none", "--state-dir", self.folder / "state", "--run-dir",
                          self.folder / "run",
                          start_new_session=True)
        end = time.monotonic() + 60
        found = None
        while not found:  # the child does not live long
            self.assertLess(time.monotonic(), end, "no child in a session of its own")
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for task in proc.glob("task/*/children"):
                    for pid in task.read_text().split():
                        child = pathlib.Path("/proc", pid)
                        # Until the child executes another program, it has the memory of its parent.
                        if os.readlink(child / "exe") != os.readlink(proc / "exe") and os.getsid(
                                int(pid)) == int(pid):
                            group = child / "autogroup"
                            found = (group.read_text().split()[-1] if group.exists() else "0",
                                     self.nice(child) >= 0,
                                     self.locked_kb(child))
        self.assertEqual(self.nice(proc), -10)
        self.assertEqual(found, ("0", True, 0))

    @lib.needs_root
    def test_a_chosen_priority_is_kept(self):
        proc = self.record("nice", "-n", "5")
        self.assertEqual(self.nice(proc), 5)
        if (proc / "autogroup").exists():
            self.assertNotIn("nice -10", (proc / "autogroup").read_text())

    @staticmethod
    def text_is_locked(proc):
        blocks = re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", (proc / "smaps").read_text())
        text = [block for block in blocks if "r-xp" in block and str(lib.MMTRACE) in block]
        return text and all(" lo" in re.search(r"VmFlags:(.*)", block)[1] for block in text)

    @lib.needs_root
    def test_a_budget_goes_to_the_program_first(self):
        if not os.access(lib.MMTRACE, os.X_OK) or lib.run(
                "setpriv", "--reuid", "65534", "test", "-x", lib.MMTRACE).returncode:
            self.skipTest(
                "another user cannot run the build: it is in a folder that only its owner may "
                "enter")
        proc = self.record(preexec_fn=as_nobody(4 << 20))
        self.assertIn(self.nice(proc), range(0, 20))
        lib.wait_for(lambda: 0 < self.locked_kb(proc) <= 4096, "locked memory within its budget")
        lib.wait_for(lambda: self.text_is_locked(proc), "the program's text locked")
        self.assertLessEqual(self.locked_kb(proc), 4096)

    @lib.needs_root
    def test_status_says_what_is_locked(self):
        sockets = {f"PERFETTO_{kind}_SOCK_NAME": str(self.folder / kind)
                   for kind in ("CONSUMER", "PRODUCER")}
        env = {**os.environ, **sockets}
        (self.folder / "armed").mkdir()
        self.start(lib.MMTRACE, "daemon", "--armed", self.folder / "armed", "--state-dir",
                   self.folder / "state",
                   "--run-dir", self.folder / "run", env=env)
        status = lambda: lib.run(lib.MMTRACE, "status", env=env).stdout  # noqa: E731
        if has_capability(CAP_IPC_LOCK):
            lib.wait_for(lambda: "locked in memory" in status(), "the line of status")
        else:
            lib.wait_for(lambda: re.search(r" of [\d.]+ MB locked in memory", status()),
                         "the line of status")


if __name__ == "__main__":
    unittest.main()
