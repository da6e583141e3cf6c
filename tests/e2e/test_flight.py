# SPDX-License-Identifier: Apache-2.0
"""The daemon as the flight recorder of a machine: its own sockets beside another tracing
service, triggers that report their outcome, and the names of the watched events.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import sys
import time
import unittest
import zipfile

import lib
import peers
import states
from test_daemon import INSTANCES, running

SHELL = os.environ.get("TRACE_PROCESSOR_SHELL") or shutil.which("trace_processor_shell")
RING = """
unique_session_name: "ring"
bugreport_score: 7
buffers { size_kb: 128 fill_policy: RING_BUFFER }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 100 } } }
trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 3600000
    triggers { name: "kmem_activity" stop_delay_ms: 100 }
    triggers { name: "once_a_day" stop_delay_ms: 100 max_per_24_h: 1 } }
"""
STORMS_MAX = 10
GROUP_BYTES = 64 << 20
STRANGER = """
import socket, sys, os
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
os.setuid(65534)
server.listen()
print("ready", flush=True)
sys.stdin.read()
"""


class Base(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(tmp.cleanup)
        self.root = pathlib.Path(tmp.name)
        (self.root / "armed").mkdir()
        (self.root / "armed" / "ring.cfg").write_text(RING)
        self.run_dir = self.root / "run"

    @contextlib.contextmanager
    def daemon(self, *options, **how):
        with running(self.root, "--kmem-events", "none", *options, ipc=True, **how) as daemon:
            daemon.wait(lambda: "armed/ring.cfg: armed" in daemon.said()
                        and (self.run_dir / "producer.sock").exists())
            yield daemon

    def command(self, verb, *argv, **how):
        return lib.run(lib.MMTRACE, verb, "--socket", self.run_dir, *argv, **how)


@lib.needs_root
class Triggers(Base):
    def setUp(self):
        super().setUp()
        daemon = self.daemon("--no-perfetto-sockets")
        self.running = daemon.__enter__()
        self.addCleanup(daemon.__exit__, None, None, None)

    def test_heard(self):
        done = self.command("trigger", "kmem_activity")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        [file] = self.running.wait(self.running.files)
        self.assertRegex(file.name, r"^ring-kmem_activity-\d{8}T\d{6}Z\.pftrace$")
        self.assertRegex(self.command("status").stdout, r"kmem_activity \d+s ago")
        [session] = json.loads(self.command("status", "--json").stdout)["sessions"]
        self.assertEqual(session["hears"], ["kmem_activity", "once_a_day"])
        self.assertGreater(session["last_trigger_realtime_ns"], session["start_realtime_ns"])

    def test_nobody_waits(self):
        done = self.command("trigger", "kmem_activty", "something_else", "kmem_activity")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, """\
mmtrace: trigger "kmem_activty": no session waits for it, nothing happened (did you mean \
"kmem_activity"?)
mmtrace: trigger "something_else": no session waits for it, nothing happened (mmtrace status \
--json names the triggers that each session hears)
""")
        self.running.wait(self.running.files)
        done = self.command("trigger", "--optional", "kmem_activty")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_held_back(self):
        self.assertEqual(self.command("trigger", "once_a_day").stderr, "")
        done = self.command("trigger", "once_a_day")
        self.assertEqual(done.returncode, 0)
        self.assertIn("held back", done.stderr)

    def test_by_a_config(self):
        (self.root / "fire.cfg").write_text(
            'activate_triggers: "kmem_activity" activate_triggers: "nix"\n')
        done = self.command("record", "-c", self.root / "fire.cfg")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, '^mmtrace: trigger "nix": no session waits for it.*\n$')
        self.running.wait(self.running.files)


@lib.needs_root
class OwnSockets(Base):
    """Another service holds Perfetto's sockets."""

    def look(self, daemon, env):
        """The commands reach our daemon, whichever service has the sockets that the environment
        names."""
        status = json.loads(self.command("status", "--json", env=env).stdout)
        self.assertEqual(status["pid"], daemon.pid)
        self.assertEqual(self.command("trigger", "kmem_activity", env=env).returncode, 0)
        daemon.wait(daemon.files)
        done = self.command("clone", "ring", "-o", self.root / "clone", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(lib.of_kind(lib.decode(self.root / "clone"), "sys_stats"))
        done = self.command("bugreport", "-o", self.root / "report.zip", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        with zipfile.ZipFile(self.root / "report.zip") as report:
            self.assertTrue(any(name.endswith("/systrace.pftrace") for name in report.namelist()),
                            report.namelist())
        done = self.command("record", "-t", "300ms", "-o", self.root / "recorded",
                            "vmscan/mm_vmscan_kswapd_wake", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        # Without --socket, the variables say where to look.
        self.assertNotIn("ring", lib.run(lib.MMTRACE, "status", env=env).stdout)

    def test_beside_a_second_daemon(self):
        with peers.Daemon() as other:
            with self.daemon("--no-perfetto-sockets", env=other.env) as daemon:
                self.look(daemon, other.env)
            refused = lib.run(lib.MMTRACE, "daemon", "--armed", "none", "--run-dir",
                              self.root / "third", "--state-dir",
                              self.root / "third", env=other.env)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("--no-perfetto-sockets", refused.stderr)

    @unittest.skipUnless(peers.find_perfetto(),
                         "needs Perfetto: in PATH, or in the root that PERFETTO_ROOT names")
    def test_beside_traced(self):
        with peers.Traced(*peers.find_perfetto()) as other:
            with self.daemon("--no-perfetto-sockets", env=other.env) as daemon:
                self.look(daemon, other.env)
                # traced does not report what a trigger did.
                done = lib.run(lib.MMTRACE, "trigger", "kmem_activty", env=other.env)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_both_pairs_of_one_daemon_hear_a_trigger_once(self):
        names = {f"PERFETTO_{kind}_SOCK_NAME": str(self.root / kind)
                 for kind in ("CONSUMER", "PRODUCER")}
        env = {**os.environ, **names}
        with self.daemon(env=names) as daemon:
            for how in ([self.command("status", "--json", env=env)],
                        [lib.run(lib.MMTRACE, "status", "--json", env=env)]):
                self.assertEqual(json.loads(how[0].stdout)["pid"], daemon.pid)
            # Two names lead to this daemon, because the default run folder belongs to another
            # daemon. The command sends the trigger to both names.
            names["PERFETTO_PRODUCER_SOCK_NAME"] += "," + str(self.run_dir / "producer.sock")
            done = lib.run(lib.MMTRACE, "trigger", "kmem_activity", env={**os.environ, **names})
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            sessions = json.loads(self.command("status", "--json").stdout)["sessions"]
            # On a slow machine the snapshot, which is a session, too, is still being written.
            session = min(sessions, key=lambda each: each["id"])
            self.assertEqual(session["triggers_received"], 1)

    def test_a_stranger_who_took_the_name_is_left(self):
        self.run_dir.mkdir()
        for kind in ("consumer", "producer"):
            stranger = subprocess.Popen(["python3", "-c", STRANGER, self.run_dir / f"{kind}.sock"],
                                        text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.addCleanup(stranger.wait)
            self.addCleanup(stranger.communicate)
            self.assertEqual(stranger.stdout.readline(), "ready\n")
        for verb, *argv in (["status"], ["trigger", "x"],
                            ["clone", "1", "-o", self.root / "clone"]):
            done = self.command(verb, *argv)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr,
                             r"user 65534 serves it, neither root nor the user of this command "
                             r"\(.*\)\n$")

    def test_any_user_may_trigger_but_not_see_the_status(self):
        self.root.chmod(0o755)
        with self.daemon("--no-perfetto-sockets") as daemon:
            self.assertEqual((self.run_dir / "consumer.sock").stat().st_mode & 0o777, 0o600)
            nobody = {"user": 65534, "group": 65534, "extra_groups": []}
            done = self.command("trigger", "kmem_activity", **nobody)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            done = self.command("status", **nobody)
            self.assertEqual(done.returncode, 1)
            self.assertIn("Permission denied", done.stderr)
            self.assertEqual(daemon.end(), 0)
        self.assertEqual(
            sorted(path.name for path in self.run_dir.iterdir() if path.suffix == ".sock"), [])


def in_group(join, script):
    """Runs Python in a memory cgroup to its end; returns the process."""
    process = subprocess.Popen(["python3", "-c", script], preexec_fn=join,
                               stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    process.wait(60)
    return process


def victims_in(packets):
    """The times and pids of the kernel's kills for want of memory."""
    return [(event.one("timestamp"), event.one("mark_victim", "pid"))
            for bundle in lib.of_kind(packets, "ftrace_events")
            for event in bundle.all("ftrace_events", "event") if "mark_victim" in event]


@lib.needs_tracefs
class Recorder(unittest.TestCase):
    """configs/flight_recorder.cfg in a daemon with the default watch, except for shorter rests."""

    @classmethod
    def setUpClass(cls):
        tmp = tempfile.TemporaryDirectory(dir="/var/tmp")
        cls.addClassCleanup(tmp.cleanup)
        cls.root = pathlib.Path(tmp.name)
        (cls.root / "armed").mkdir()
        text = (lib.ROOT / "configs" / "flight_recorder.cfg").read_text()
        text = re.sub(r"stop_delay_ms: \d+", "stop_delay_ms: 1500", text)
        (cls.root / "armed" / "flight_recorder.cfg").write_text(
            re.sub(r"_period_ms: 5000", "_period_ms: 500", text))
        with open(cls.root / "sparse", "wb") as file:
            file.truncate(GROUP_BYTES * 8)
        with lib.memory_cgroup(GROUP_BYTES) as join, \
                running(cls.root, "--kmem-rest", "1s", "--kmem-rest-max", "1s") as daemon:
            daemon.wait(lambda: "flight_recorder.cfg: armed" in daemon.said())
            # Other programs may make the machine reclaim just now. The watch then rests for a
            # second.
            reader = (
                f"file = open('{cls.root}/sparse', 'rb', buffering=0)\nwhile file.read(1 << "
                "20): pass")
            daemon.wait(lambda: f"memcg_reclaim_begin by python3-{in_group(join, reader).pid}:"
                        in daemon.said(), 60)
            victims = []
            cls.victim = daemon.wait(lambda: cls.killed(join, daemon, victims), 60)
            for stem in ("oom_kill", "kmem_activity"):
                daemon.wait(
                    lambda stem=stem: list(daemon.traces.glob(f"flight_recorder-{stem}-*.pftrace")))
            cls.code = daemon.end()
            cls.said = daemon.said()
        # Other programs of the machine may be killed, too.
        for cls.file in sorted(daemon.traces.glob("flight_recorder-oom_kill-*.pftrace")):
            cls.packets = lib.decode(cls.file)
            if cls.victim.pid in [pid for _, pid in victims_in(cls.packets)]:
                break

    @staticmethod
    def killed(join, daemon, victims):
        """Lets the kernel kill a process. Returns the first process so far that the daemon has
        named; None if the watch was resting, or the daemon is late."""
        victims.append(in_group(join, f"x = bytearray({GROUP_BYTES} * 4)"))
        time.sleep(0.2)
        said = daemon.said()
        return next((v for v in victims if f": pid={v.pid} comm=python3 " in said), None)

    def query(self, sql):
        done = lib.run(lib.MMSQL, "query", "--csv", self.root / "trace.db", sql)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()[1:]

    def test_the_killing(self):
        self.assertEqual(self.victim.returncode, -signal.SIGKILL)
        self.assertEqual(self.code, 0, self.said)
        self.assertRegex(self.said,
                         rf"oom_kill: oom/mark_victim by .*: pid={self.victim.pid} comm=python3 "
                         r".*; noticed")

    def test_holds_what_led_up_to_it(self):
        [trigger] = [p.one("clone_snapshot_trigger")
                     for p in lib.of_kind(self.packets, "clone_snapshot_trigger")]
        self.assertEqual(trigger.one("trigger_name"), "oom_kill")
        [killed] = [time for time, pid in victims_in(self.packets) if pid == self.victim.pid]
        stats = [p for p in lib.of_kind(self.packets, "sys_stats")]
        self.assertGreater(len([p for p in stats if p.one("timestamp") < killed
                                and "vmstat" in p["sys_stats"][0]]), 0)
        self.assertGreater(len([p for p in stats if p.one("timestamp") > killed]), 0)

    def test_our_tool_reads_it(self):
        done = lib.run(lib.MMSQL, "convert", self.file, "-o", self.root / "trace.db")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup((self.root / "trace.db").unlink)
        self.assertEqual(self.query("SELECT str_value FROM metadata WHERE name = 'trace_trigger'"),
                         ["oom_kill"])
        self.assertEqual(self.query(
            "SELECT DISTINCT slice.name FROM slice JOIN track ON track.id = slice.track_id "
            "WHERE track.name = 'Trace Triggers' AND ts BETWEEN trace_start() AND trace_end() "
            "AND slice.name = 'oom_kill'"), ["oom_kill"])
        self.assertEqual(self.query("SELECT name FROM process WHERE pid = 1"),
                         [pathlib.Path("/proc/1/cmdline").read_bytes().split(b"\0")[0].decode()])
        [unnamed, n] = self.query("SELECT sum(name IS NULL), count(*) FROM process WHERE pid > 0")[
            0].split(",")
        self.assertLess(int(unnamed), int(n) / 4)
        for what in ("SELECT 1 FROM ftrace_event WHERE name = 'mm_vmscan_memcg_reclaim_begin'",
                     "SELECT 1 FROM counter_track WHERE name LIKE 'psi%'",
                     "SELECT 1 FROM counter_track WHERE name = 'oom_kill'",
                     "SELECT 1 FROM process_counter_track WHERE name = 'mem.rss'"):
            self.assertTrue(self.query(what + " LIMIT 1"), what)
        self.assertEqual(self.query(
            "SELECT name FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"), [])

    @unittest.skipUnless(SHELL, "needs trace_processor_shell in PATH")
    def test_perfetto_reads_it(self):
        (self.root / "sql").write_text(
            "SELECT count(*) AS n FROM process WHERE pid = 1 AND name IS NOT NULL;")
        done = lib.run(SHELL, "-q", self.root / "sql", self.file)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split(), ['"n"', "1"])


VICTIM = f"""
input()
x = bytearray({GROUP_BYTES} * 4)
"""


@lib.needs_tracefs
class Kill(Base):
    """A storm of reclaim after an OOM kill."""

    def setUp(self):
        super().setUp()
        (self.root / "armed" / "ring.cfg").unlink()
        text = (lib.ROOT / "configs" / "flight_recorder.cfg").read_text()
        text = re.sub(r"^  size_kb: 512$", "  size_kb: 8", text, flags=re.MULTILINE)
        (self.root / "armed" / "ring.cfg").write_text(text.replace("period_ms: 5000",
                                                                   "period_ms: 500"))
        with open(self.root / "sparse", "wb") as file:
            file.truncate(GROUP_BYTES * 8)
        self.reader = (f"file = open('{self.root}/sparse', 'rb', buffering=0)\n"
                       "for _ in range(4):\n    file.seek(0)\n    while file.read(1 << 20): pass")

    @contextlib.contextmanager
    def greedy(self, join):
        """A process with this name, which waits. The daemon starts later: it knows no other
        name of the process."""
        program = self.root / "greedy"
        program.symlink_to(sys.executable)
        with subprocess.Popen([program, "-c", VICTIM], stdin=subprocess.PIPE,
                              preexec_fn=join) as victim:
            try:
                states.wait_for_program(victim.pid, "greedy")
                yield victim
            finally:
                victim.kill()

    def events(self, name):
        return [(event.one("timestamp"), event)
                for bundle in lib.of_kind(self.packets, "ftrace_events")
                for event in bundle.all("ftrace_events", "event") if name in event]

    def storm_passed(self, join, pid):
        """Whether the ring, after one more storm, has only events of reclaim from after the kill of
        the process. The kill is there in any case."""
        in_group(join, self.reader)
        time.sleep(1)  # two rounds of reading
        done = self.command("clone", "mmtrace_flight_recorder", "-o", self.root / "clone")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.packets = lib.decode(self.root / "clone")
        [killed] = [time for time, event in self.events("mark_victim")
                    if event.one("mark_victim", "pid") == pid]
        return min(time for time, _ in self.events("mm_vmscan_memcg_reclaim_begin")) > killed

    def test_it_survives(self):
        with lib.memory_cgroup(GROUP_BYTES) as join, self.greedy(join) as victim, \
                self.daemon("--no-perfetto-sockets", "--psi", "none") as daemon:
            enabled = sorted(
                tuple(lib.tracefs_text(INSTANCES / name, f"events/{event}/enable").strip()
                      for event in ("oom/mark_victim", "sched/sched_process_exit"))
                for name in daemon.instances())
            victim.communicate(b"\n", timeout=60)
            self.assertEqual(victim.returncode, -signal.SIGKILL)
            for _ in range(STORMS_MAX):
                if self.storm_passed(join, victim.pid):
                    break
            else:
                self.fail("the ring still has events of reclaim from before the kill")
        # The ends of tasks, for their names, are not in the small buffer of the kills.
        self.assertEqual(enabled, [("0", "1"), ("1", "0")])
        done = lib.run(lib.MMSQL, "verdict", self.root / "clone")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, rf"the kernel killed .*greedy.*\b{victim.pid}\b")


@contextlib.contextmanager
def measured_cgroup():
    """A memory cgroup of GROUP_BYTES whose stalls are measured; yields the function that joins it,
    and its pressure file. With cgroups v1, a group of v2 measures the stalls, if v2 is mounted.
    """
    with lib.memory_cgroup(GROUP_BYTES) as join:
        there = subprocess.run(["cat", "/proc/self/cgroup"], preexec_fn=join, capture_output=True,
                               text=True, check=True)
        path = re.search("^0::(.*mmtrace-test-.*)$", there.stdout, re.MULTILINE)
        if path:
            yield join, pathlib.Path(f"/sys/fs/cgroup{path[1]}/memory.pressure")
            return
        group = pathlib.Path(f"/sys/fs/cgroup/unified/mmtrace-test-{os.getpid()}")
        try:
            group.mkdir()
        except OSError as error:
            raise unittest.SkipTest(f"no cgroup v2: {error}") from error
        try:
            yield lambda: (join(),
                           (group / "cgroup.procs").write_text(
                               str(os.getpid()))), group / "memory.pressure"
        finally:
            group.rmdir()


@lib.needs_root
class Pressure(Base):
    def test_watch_of_one_cgroup(self):
        with open(self.root / "sparse", "wb") as file:
            file.truncate(GROUP_BYTES * 8)
        reader = (
            f"file = open('{self.root}/sparse', 'rb', buffering=0)\nwhile file.read(1 << 20): pass")
        with measured_cgroup() as (join, pressure):
            if not pressure.exists():
                self.skipTest("this kernel does not measure pressure")
            threshold = f"some 1000 2000000 {pressure}"
            with self.daemon("--no-perfetto-sockets", "--psi", threshold) as daemon:
                daemon.wait(lambda: in_group(join, reader)
                            and f"kmem_activity: {threshold};" in daemon.said())
                [file] = daemon.wait(daemon.files)
                self.assertIn("ring-kmem_activity-", file.name)

    def test_watch_of_a_missing_cgroup(self):
        threshold = f"some 1000 2000000 {self.root}/nowhere"
        with self.daemon("--no-perfetto-sockets", "--psi", threshold) as daemon:
            daemon.wait(lambda: f'pressure threshold "{threshold}" is not watched: No such file'
                        in daemon.said())


@lib.needs_tracefs
class Names(unittest.TestCase):
    """A watched event must exist."""

    def test_mistyped(self):
        for event, hint in (("vmscan/mm_vmscan_direct_reclaim_begn",
                             'did you mean "vmscan/mm_vmscan_direct_reclaim_begin"?'),
                            ("vmscan/mark_victim", 'did you mean "oom/mark_victim"?'),
                            ("xyz/quite_another",
                             "/sys/kernel/tracing/available_events lists them")):
            done = lib.run(lib.MMTRACE, "daemon", "--armed", "none", "--kmem-events",
                           f"oom/mark_victim,{event}")
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr,
                             f'mmtrace daemon: --kmem-events: "{event}": this kernel has no such '
                             f'event ({hint})\n')


if __name__ == "__main__":
    unittest.main()
