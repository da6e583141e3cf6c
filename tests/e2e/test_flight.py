# SPDX-License-Identifier: Apache-2.0
"""What makes the daemon fit to be the flight recorder of a machine: its own sockets beside another tracing
service, triggers that say what became of them, and the names of what it watches.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import lib
import peers
from test_daemon import running

RING = """
unique_session_name: "ring"
bugreport_score: 7
buffers { size_kb: 128 fill_policy: RING_BUFFER }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 100 } } }
trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 3600000
    triggers { name: "kmem_activity" stop_delay_ms: 100 }
    triggers { name: "once_a_day" stop_delay_ms: 100 max_per_24_h: 1 } }
"""
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
            daemon.wait(lambda: "armed/ring.cfg: armed" in daemon.said() and (self.run_dir / "producer.sock").exists())
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
        self.assertRegex(file.name, r"^ring-\d{8}T\d{6}Z\.pftrace$")
        self.assertRegex(self.command("status").stdout, r"kmem_activity \d+s ago")
        [session] = json.loads(self.command("status", "--json").stdout)["sessions"]
        self.assertEqual(session["hears"], ["kmem_activity", "once_a_day"])
        self.assertGreater(session["last_trigger_realtime_ns"], session["start_realtime_ns"])

    def test_nobody_waits(self):
        done = self.command("trigger", "kmem_activty", "something_else", "kmem_activity")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, """\
mmtrace: trigger "kmem_activty": no session waits for it, nothing happened (did you mean "kmem_activity"?)
mmtrace: trigger "something_else": no session waits for it, nothing happened (mmtrace status --json names \
the triggers that each session hears)
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
        (self.root / "fire.cfg").write_text('activate_triggers: "kmem_activity" activate_triggers: "nix"\n')
        done = self.command("record", "-c", self.root / "fire.cfg")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, '^mmtrace: trigger "nix": no session waits for it.*\n$')
        self.running.wait(self.running.files)


@lib.needs_root
class OwnSockets(Base):
    """Another service holds Perfetto's sockets."""

    def look(self, daemon, env):
        """The commands reach our daemon, whoever serves the sockets that the environment names."""
        status = json.loads(self.command("status", "--json", env=env).stdout)
        self.assertEqual(status["pid"], daemon.pid)
        self.assertEqual(self.command("trigger", "kmem_activity", env=env).returncode, 0)
        daemon.wait(daemon.files)
        done = self.command("clone", "ring", "-o", self.root / "clone", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(lib.of_kind(lib.decode(self.root / "clone"), "sys_stats"))
        done = self.command("bugreport", "-o", self.root / "report.zip", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = subprocess.run(["unzip", "-l", self.root / "report.zip"], capture_output=True, text=True, check=True)
        self.assertIn("systrace.pftrace", listed.stdout)
        done = self.command("record", "-t", "300ms", "-o", self.root / "recorded", "vmscan/mm_vmscan_kswapd_wake", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        # Without --socket, the variables say where to look.
        self.assertNotIn("ring", lib.run(lib.MMTRACE, "status", env=env).stdout)

    def test_beside_a_second_daemon(self):
        with peers.Daemon() as other:
            with self.daemon("--no-perfetto-sockets", env=other.env) as daemon:
                self.look(daemon, other.env)
            refused = lib.run(lib.MMTRACE, "daemon", "--armed", "none", "--run-dir", self.root / "third", "--state-dir",
                              self.root / "third", env=other.env)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("--no-perfetto-sockets", refused.stderr)

    @unittest.skipUnless(peers.find_perfetto(), "needs Perfetto: in PATH, or in the root that PERFETTO_ROOT names")
    def test_beside_traced(self):
        with peers.Traced(*peers.find_perfetto()) as other:
            with self.daemon("--no-perfetto-sockets", env=other.env) as daemon:
                self.look(daemon, other.env)
                # Of traced it is not known what became of a trigger.
                done = lib.run(lib.MMTRACE, "trigger", "kmem_activty", env=other.env)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_both_pairs_of_one_daemon_hear_a_trigger_once(self):
        names = {f"PERFETTO_{kind}_SOCK_NAME": str(self.root / kind) for kind in ("CONSUMER", "PRODUCER")}
        env = {**os.environ, **names}
        with self.daemon(env=names) as daemon:
            for how in ([self.command("status", "--json", env=env)], [lib.run(lib.MMTRACE, "status", "--json", env=env)]):
                self.assertEqual(json.loads(how[0].stdout)["pid"], daemon.pid)
            # The default run folder is another one's: tell by both names that lead to this daemon.
            names["PERFETTO_PRODUCER_SOCK_NAME"] += "," + str(self.run_dir / "producer.sock")
            done = lib.run(lib.MMTRACE, "trigger", "kmem_activity", env={**os.environ, **names})
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            [session] = json.loads(self.command("status", "--json").stdout)["sessions"]
            self.assertEqual(session["triggers_received"], 1)

    def test_a_stranger_who_took_the_name_is_left(self):
        self.run_dir.mkdir()
        for kind in ("consumer", "producer"):
            stranger = subprocess.Popen(["python3", "-c", STRANGER, self.run_dir / f"{kind}.sock"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.addCleanup(stranger.wait)
            self.addCleanup(stranger.communicate)
            self.assertEqual(stranger.stdout.readline(), "ready\n")
        for verb, *argv in (["status"], ["trigger", "x"], ["clone", "1", "-o", self.root / "clone"]):
            done = self.command(verb, *argv)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"user 65534 serves it, not root \(.*\)\n$")

    def test_who_may(self):
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
        self.assertEqual(sorted(path.name for path in self.run_dir.iterdir() if path.suffix == ".sock"), [])


if __name__ == "__main__":
    unittest.main()
