# SPDX-License-Identifier: Apache-2.0
"""mmtrace daemon, end to end: configs kept armed, real memory pressure, the cost of waiting,
crashes.

Each daemon has folders of its own, so that it never meets a daemon that serves this machine.
"""
import contextlib
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

import lib
import states

sys.path.insert(0, str(lib.ROOT / "scripts"))
import load  # noqa: E402

INSTANCES = lib.TRACEFS / "instances"
# Only events that the load of these tests causes: other tests may run beside them, in cgroups of
# their own.
WATCH = ("--psi", "none", "--kmem-events",
         "vmscan/mm_vmscan_kswapd_wake,vmscan/mm_vmscan_direct_reclaim_begin,"
         "compaction/mm_compaction_begin,oom/mark_victim")
N_WATCHES = 3  # of the daemon: background reclaim, stalls, kills
N_SOURCES = 2  # of events in mm_events.cfg: reclaim, kills
STOP_DELAY_MS = 8000  # longer than a burst of pressure and a bugreport
IDLE_S = 5
REPORTED = "FS/data/misc/perfetto-traces/bugreport/systrace.pftrace"
# The buffers of the config, which are allocated at the start, and everything else. Pages of
# libraries are not counted: the kernel decides how many pages around a used page it maps.
OWN_MAX_KB = 4096 + 512 + 3072 + 2048
N_KILLS = int(os.environ.get("MMTRACE_KILLS", "8"))
PLAIN = """
buffers { size_kb: 64 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 100 } } }
trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 3600000
    triggers { name: "kmem_activity" stop_delay_ms: 300 } }
"""


def mm_events():
    text = (lib.ROOT / "configs" / "mm_events.cfg").read_text()
    return text.replace("stop_delay_ms: 360000", f"stop_delay_ms: {STOP_DELAY_MS}")


class Daemon:
    """A running daemon; its messages go into a file."""

    def __init__(self, root, *options, env=None, ipc=False, session=False):
        self.root = pathlib.Path(root)
        self.armed = self.root / "armed"
        self.traces = self.root / "state" / "traces"
        self.armed.mkdir(exist_ok=True)
        self.log = open(self.root / "log", "ab")
        argv = [lib.MMTRACE, "daemon", *([] if ipc else ["--no-ipc"]), "--armed", self.armed,
                "--state-dir", self.root / "state",
                "--run-dir", self.root / "run", *options]
        self.process = subprocess.Popen([str(arg) for arg in argv], stderr=self.log,
                                        start_new_session=session,
                                        env={**os.environ, **(env or {})})
        self.pid = self.process.pid

    def said(self):
        return (self.root / "log").read_text()

    def wait(self, condition, timeout_s=60):
        """The value of `condition` when it is true; raises when the daemon ends or is too slow."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(
            f"not within {timeout_s} s, exit code {self.process.poll()}:\n{self.said()}")

    def instances(self):
        return [path.name for path in INSTANCES.glob(f"mmtrace-{self.pid}-*")]

    def files(self):
        return sorted(self.traces.glob("*.pftrace")) if self.traces.is_dir() else []

    def status(self, *names):
        fields = dict(line.split(":", 1) for line in
                      pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines())
        return [int(fields[name].split()[0]) for name in names]

    def end(self, signal_number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        code = self.process.wait(timeout=30)
        self.log.close()
        return code


@contextlib.contextmanager
def running(root, *options, env=None, ipc=False):
    daemon = Daemon(root, *options, env=env, ipc=ipc)
    try:
        yield daemon
    finally:
        daemon.end(signal.SIGKILL)


@lib.needs_tracefs
class Pressure(unittest.TestCase):
    """One daemon with mm_events.cfg; waiting, pressure, more pressure, the end."""

    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory(dir="/var/tmp")
        cls.addClassCleanup(cls.tmp.cleanup)
        root = pathlib.Path(cls.tmp.name)
        full = contextlib.ExitStack()
        cls.addClassCleanup(full.close)
        (root / "armed").mkdir()
        (root / "armed" / "mm_events.cfg").write_text(mm_events())
        sockets = {f"PERFETTO_{kind}_SOCK_NAME": str(root / kind)
                   for kind in ("CONSUMER", "PRODUCER")}
        # The rest is longer than the whole test on a busy machine.
        with running(root, *WATCH, "--kmem-rest", "10m", env=sockets, ipc=True) as daemon:
            daemon.wait(lambda: "armed/mm_events.cfg: armed" in daemon.said())
            cls.idle(daemon)
            # memory may have been short before
            if "kmem_activity" not in daemon.said():
                load.pressure(root, n_wanted=5, keep=full)
            daemon.wait(lambda: "kmem_activity:" in daemon.said())
            daemon.wait(lambda: cls.report(root, {**os.environ, **sockets}))
            daemon.wait(daemon.files)
            daemon.wait(lambda: len(daemon.instances()) == N_WATCHES + N_SOURCES)
            load.pressure(root, n_wanted=5)
            for _ in range(2):  # after an answer, the loop has come round
                cls.status = lib.run(lib.MMTRACE, "status", env={**os.environ, **sockets})
            cls.instances_armed = daemon.instances()
            cls.code = daemon.end()
            cls.files = daemon.files()
            cls.instances_left = daemon.instances()
            cls.said = daemon.said()
            cls.packets = lib.decode(cls.files[0])
            done = lib.run(lib.MMSQL, "convert", cls.files[0], "-o", root / "trace.db")
            cls.converted = done.returncode

    @classmethod
    def report(cls, root, env):
        """Whether a bugreport has samples of the recording that goes on."""
        cls.bugreport = lib.run(lib.MMTRACE, "bugreport", "-o", root / "report.zip", env=env)
        if cls.bugreport.returncode == 0:
            with zipfile.ZipFile(root / "report.zip") as report:
                cls.reported = lib.decode(report.read(REPORTED))
        return cls.bugreport.returncode or lib.of_kind(cls.reported, "sys_stats")

    @classmethod
    def idle(cls, daemon):
        daemon.wait(lambda: states.sleeps(daemon.pid, 0.5))
        cls.turns = states.turns(daemon.pid)
        time.sleep(IDLE_S)
        cls.turns_later = states.turns(daemon.pid)
        cls.was_short = "kmem_activity" in daemon.said()
        cls.own_kb = sum(daemon.status("RssAnon", "RssShmem"))
        cls.files_idle = daemon.files()

    def test_waiting_costs_nothing(self):
        if self.was_short:
            self.skipTest("this machine got short of memory by itself")
        self.assertEqual(self.turns_later, self.turns)
        self.assertEqual({state for _, state in self.turns.values()}, {"S"})
        self.assertEqual(self.files_idle, [])

    def test_memory(self):
        if lib.is_sanitized():
            self.skipTest("a sanitizer takes memory itself")
        self.assertLess(self.own_kb, OWN_MAX_KB)

    def trigger(self):
        [trigger] = [packet for packet in lib.of_kind(self.packets, "trigger")]
        return trigger

    def test_trigger_packet(self):
        trigger = self.trigger().one("trigger")
        self.assertEqual(trigger.one("trigger_name"), "kmem_activity")
        self.assertEqual(trigger.one("trusted_producer_uid", default=0), 0)

    def end_of_the_session(self):
        [end] = [packet.one("timestamp") for packet in lib.of_kind(self.packets, "service_event")
                 if "tracing_disabled" in packet.one("service_event")]
        return end

    def test_starts_at_the_trigger_and_lasts_its_delay(self):
        at = self.trigger().one("timestamp")
        stats = [packet.one("timestamp") for packet in lib.of_kind(self.packets, "sys_stats")]
        self.assertGreater(len(stats), 3)
        self.assertGreaterEqual(min(stats), at - 10e6)
        self.assertLess(min(stats), at + 1e9)
        end = self.end_of_the_session()
        self.assertGreaterEqual((end - at) / 1e6, STOP_DELAY_MS)
        self.assertLess((end - at) / 1e6, STOP_DELAY_MS + 3000)  # the machine may be busy
        self.assertLessEqual(max(stats), end + 10e6)

    def test_events_of_the_pressure_are_there(self):
        events = [event for bundle in lib.of_kind(self.packets, "ftrace_events")
                  for event in bundle.all("ftrace_events", "event")]
        self.assertGreater(len(events), 0)

    def test_bugreport_in_the_middle(self):
        self.assertEqual(self.bugreport.returncode, 0, self.bugreport.stderr)
        seen, all_of_it = ({packet.one("timestamp") for packet in lib.of_kind(packets, "sys_stats")}
                           for packets in (self.reported, self.packets))
        self.assertGreater(len(seen), 0)
        self.assertLessEqual(seen, all_of_it)
        if max(seen) < self.end_of_the_session() - 2e9:  # a busy machine makes the report late
            self.assertLess(seen, all_of_it)  # the recording went on
        [trigger] = lib.of_kind(self.reported, "trigger")
        self.assertEqual(trigger.one("timestamp"), self.trigger().one("timestamp"))

    def test_converts(self):
        self.assertEqual(self.converted, 0)

    def test_second_pressure_within_the_rest_fires_nothing(self):
        self.assertEqual(self.status.returncode, 0, self.status.stderr)
        self.assertEqual(self.said.count("kmem_activity:"), 1)
        self.assertEqual(len(self.files), 1)

    def test_armed_again(self):
        self.assertEqual(len(self.instances_armed), N_WATCHES + N_SOURCES)

    def test_end(self):
        self.assertEqual(self.code, 0, self.said)
        self.assertEqual(self.instances_left, [])


@lib.needs_root
class Folder(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(tmp.cleanup)
        self.root = pathlib.Path(tmp.name)
        (self.root / "armed").mkdir()

    def put(self, name, text):
        (self.root / "armed" / name).write_text(text)

    def test_wrong_config_disables_itself_alone(self):
        self.put("bad.cfg", "buffers { size_kb: 64 }\nsources {\n")
        self.put("good.cfg", PLAIN)
        with running(self.root, "--kmem-events", "none") as daemon:
            daemon.wait(lambda: "armed/good.cfg: armed" in daemon.said())
            self.assertEqual(daemon.said().count("armed/bad.cfg: "), 1)
            self.assertRegex(daemon.said(), r"(?m)^mmtrace: armed/bad.cfg: left alone until it "
                             r"changes: bad.cfg:2:\d+: .*\nmmtrace:     sources \{\n"
                             r"mmtrace:     \^$")
            self.put("bad.cfg", PLAIN)
            daemon.wait(lambda: "armed/bad.cfg: armed" in daemon.said())
            self.assertEqual(daemon.said().count("armed/good.cfg: "), 1)

    def test_configs_come_and_go(self):
        with running(self.root, "--kmem-events", "none") as daemon:
            self.put("new.cfg", PLAIN)
            daemon.wait(lambda: "armed/new.cfg: armed" in daemon.said())
            (daemon.armed / "new.cfg").unlink()
            daemon.wait(lambda: "armed/new.cfg: not armed any more" in daemon.said())
            self.assertEqual(daemon.files(), [])
            self.assertEqual(daemon.end(), 0)

    def test_one_session_of_a_name(self):
        text = 'unique_session_name: "the one"\n' + PLAIN
        self.put("a.cfg", text)
        self.put("b.cfg", text)
        with running(self.root, "--kmem-events", "none") as daemon:
            daemon.wait(lambda: ".cfg: armed" in daemon.said()
                        and "tries again later" in daemon.said())
            daemon.wait(lambda: states.sleeps(daemon.pid, 0.2))
            states.wait_for_turns(daemon.pid, 1)  # the next try, which fails, too
            self.assertEqual(daemon.said().count("tries again later"), 1)
            self.assertEqual(daemon.said().count(".cfg: armed"), 1)
            self.assertIn("unique_session_name", daemon.said())
            [armed] = re.findall(r"armed/(.)\.cfg: armed", daemon.said())
            (daemon.armed / f"{armed}.cfg").unlink()
            daemon.wait(lambda: daemon.said().count(".cfg: armed") == 2)

    def test_second_daemon_is_refused(self):
        with running(self.root, "--kmem-events", "none") as daemon:
            daemon.wait(lambda: states.locks(daemon.pid, self.root / "run" / "daemon.lock"))
            done = lib.run(lib.MMTRACE, "daemon", "--no-ipc", "--armed", "none", "--run-dir",
                           self.root / "run",
                           "--state-dir", self.root / "other")
            self.assertEqual(done.returncode, 1)
            self.assertIn("a daemon runs already", done.stderr)

    def test_wrong_usage(self):
        for option, value in (("--psi", "much"), ("--kmem-events", "wake"), ("--kmem-rest", "0"),
                              ("--keep-files", "x")):
            done = lib.run(lib.MMTRACE, "daemon", option, value)
            self.assertEqual(done.returncode, 2, done.stderr)

    def test_folder_that_is_not_there(self):
        done = lib.run(lib.MMTRACE, "daemon", "--no-ipc", "--armed", self.root / "nowhere",
                       "--run-dir",
                       self.root / "run", "--state-dir", self.root / "state")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nowhere", done.stderr)

    def test_service_manager_hears(self):
        self.put("one.cfg", PLAIN)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(self.root / "notify"))
            manager.settimeout(20)
            env = {"NOTIFY_SOCKET": str(self.root / "notify"), "WATCHDOG_USEC": "400000"}
            with running(self.root, "--kmem-events", "none", env=env) as daemon:
                self.assertEqual(manager.recv(100), b"READY=1")
                self.assertEqual(manager.recv(100), b"WATCHDOG=1")
                daemon.process.send_signal(signal.SIGTERM)
                heard = b""
                while heard != b"STOPPING=1":
                    heard = manager.recv(100)
                self.assertEqual(daemon.end(), 0)


@lib.needs_tracefs
class Snapshot(unittest.TestCase):
    def test_snapshots_while_recording_goes_on(self):
        tmp = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(tmp.cleanup)
        root = pathlib.Path(tmp.name)
        (root / "armed").mkdir()
        text = PLAIN.replace("START_TRACING", "CLONE_SNAPSHOT")
        (root / "armed" / "ring.cfg").write_text(text)
        with running(root, *WATCH, "--kmem-rest", "1s") as daemon:
            daemon.wait(lambda: "armed/ring.cfg: armed" in daemon.said())
            states.wait_for_reads(daemon.pid, 30)
            for n_files in (1, 2):
                daemon.wait(lambda: load.compact() or len(daemon.files()) >= n_files)
            self.assertEqual(daemon.said().count("armed/ring.cfg: armed"), 1)
            files = daemon.files()
            self.assertEqual(daemon.end(), 0, daemon.said())
        seen = []
        for file in files[:2]:
            packets = lib.decode(file)
            [trigger] = [packet.one("clone_snapshot_trigger")
                         for packet in lib.of_kind(packets, "clone_snapshot_trigger")]
            self.assertEqual(trigger.one("trigger_name"), "kmem_activity")
            seen.append({packet.one("timestamp") for packet in lib.of_kind(packets, "sys_stats")})
        self.assertGreater(len(seen[0]), 1)
        self.assertGreater(max(seen[1]), max(seen[0]))
        self.assertTrue(seen[0] & seen[1])  # the ring's history is in both


@lib.needs_tracefs
class Crash(unittest.TestCase):
    def test_killed_again_and_again(self):
        tmp = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(tmp.cleanup)
        root = pathlib.Path(tmp.name)
        (root / "armed").mkdir()
        text = mm_events().replace(f"stop_delay_ms: {STOP_DELAY_MS}", "stop_delay_ms: 200")
        (root / "armed" / "mm_events.cfg").write_text(text)
        chance = random.Random(3)
        killed = []
        for _ in range(N_KILLS):
            daemon = Daemon(root, *WATCH, "--kmem-rest", "300ms")
            killed.append(daemon.pid)
            time.sleep(chance.random() * 0.7)
            load.compact()
            time.sleep(chance.random() * 0.7)
            daemon.end(signal.SIGKILL)
        with running(root, *WATCH, "--kmem-rest", "300ms") as daemon:
            n_armed = daemon.said().count("armed/mm_events.cfg: armed")
            daemon.wait(lambda: daemon.said().count("armed/mm_events.cfg: armed") > n_armed
                        or len(daemon.instances()) == N_WATCHES + N_SOURCES)
            left = [path.name for pid in killed for path in INSTANCES.glob(f"mmtrace-{pid}-*")]
            self.assertEqual(left, [])
            load.compact()
            n_written = daemon.said().count("wrote")  # older files make room for new ones
            daemon.wait(lambda: load.compact() or daemon.said().count("wrote") > n_written)
            self.assertEqual(daemon.end(), 0, daemon.said())
        self.assertTrue(daemon.files())
        for file in daemon.files():
            done = lib.run(lib.MMSQL, "convert", file, "-o", root / "trace.db")
            self.assertEqual(done.returncode, 0, f"{file}: {done.stderr}")
            (root / "trace.db").unlink()

    def test_killed_and_not_reaped(self):
        tmp = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(tmp.cleanup)
        root = pathlib.Path(tmp.name)
        dead = Daemon(root, *WATCH)
        dead.wait(lambda: len(dead.instances()) == N_WATCHES)
        dead.process.send_signal(signal.SIGKILL)
        # this process is the parent that does not reap
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
        self.addCleanup(dead.end)
        self.assertEqual(len(dead.instances()), N_WATCHES)
        with running(root, *WATCH) as daemon:
            daemon.wait(daemon.instances)
            self.assertEqual(dead.instances(), [])
            self.assertEqual([path.name for path in (root / "run").glob(f"ftrace-{dead.pid}-*")],
                             [])
            self.assertIn(f"undid changes that process {dead.pid}-", daemon.said())
            self.assertEqual(daemon.end(), 0, daemon.said())


if __name__ == "__main__":
    unittest.main()
