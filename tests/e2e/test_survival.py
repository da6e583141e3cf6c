# SPDX-License-Identifier: Apache-2.0
"""What survives: the table of faults and promises in docs/daemon.md, a test for each row.

Each daemon has folders and abstract sockets of its own.
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

import lib
import test_daemon
import test_ipc

COUNTERS = """
buffers { size_kb: 1024 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 50 } } }
"""
INTO_FILE = COUNTERS + "write_into_file: true file_write_period_ms: 100\n"
TRIGGERED = COUNTERS + """
trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 3600000
    triggers { name: "now" stop_delay_ms: %d } }
"""
n_started = 0


def samples(trace):
    """The times of the samples in a trace, in order."""
    return [packet.one("timestamp") for packet in lib.of_kind(lib.decode(trace), "sys_stats")]


def wait_for(condition, what, timeout_s=30):
    """The value of `condition` when it is true."""
    end = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout_s} s: {what() if callable(what) else what}")
        time.sleep(0.02)


class Case(unittest.TestCase):
    def setUp(self):
        global n_started
        n_started += 1
        tmp = tempfile.TemporaryDirectory(dir="/var/tmp", prefix="mmtrace-survival-")
        self.addCleanup(tmp.cleanup)
        self.root = pathlib.Path(tmp.name)
        (self.root / "armed").mkdir()
        name = f"@mmtrace-survival-{os.getpid()}-{n_started}"
        self.sockets = {f"PERFETTO_{kind}_SOCK_NAME": f"{name}-{kind}" for kind in ("CONSUMER", "PRODUCER")}
        self.env = {**os.environ, **self.sockets}

    def arm(self, name, text):
        (self.root / "armed" / f"{name}.cfg").write_text(text)

    def daemon(self, *options):
        """A running daemon, as a context; it answers when this returns."""
        @contextlib.contextmanager
        def running():
            with test_daemon.running(self.root, "--kmem-events", "none", *options, env=self.sockets, ipc=True) as daemon:
                daemon.wait(lambda: self.command("status").returncode == 0)
                yield daemon
        return running()

    def command(self, *arguments):
        return lib.run(lib.MMTRACE, *arguments, env=self.env)

    def client(self, argv, **options):
        """A client that records; killed at the end if it still lives."""
        client = subprocess.Popen([str(arg) for arg in argv], env=self.env, text=True,
                                  stderr=subprocess.PIPE, **options)

        def end():
            client.kill()
            client.communicate()
        self.addCleanup(end)
        return client

    def record(self, out, text, *options, **popen):
        config = self.root / f"{out}.txt"
        config.write_text(text)
        return self.client([lib.MMTRACE, "record", "-c", config, "-o", self.root / out, *options], **popen)

    def sessions(self):
        """The lines of `mmtrace status` about sessions."""
        lines = self.command("status").stdout.splitlines()
        header = [i for i, line in enumerate(lines) if line.startswith("ID ")]
        return lines[header[0] + 1:] if header else []

    def wait_recording(self, n=1, seconds=0.5):
        """Until n sessions record, and have recorded for a while."""
        wait_for(lambda: sum(" recording " in line for line in self.sessions()) == n, "no session records")
        time.sleep(seconds)


@lib.needs_root
class SigtermWithClients(Case):
    def test_recordings_in_memory_are_read(self):
        with self.daemon() as daemon:
            clients = [self.record(f"{i}.pftrace", COUNTERS) for i in range(4)]
            self.wait_recording(4)
            self.assertEqual(daemon.end(), 0)
            for i, client in enumerate(clients):
                _, stderr = client.communicate(timeout=20)
                self.assertEqual(client.returncode, 0, stderr)
                self.assertGreater(len(samples(self.root / f"{i}.pftrace")), 5)

    def test_large_recording_is_read_to_its_end(self):
        text = COUNTERS.replace("1024", "65536").replace("meminfo_period_ms: 50", "meminfo_period_ms: 10")
        events = 'data_sources { config { name: "linux.ftrace" ftrace_config { ftrace_events: "sched/sched_switch" } } }\n'
        with self.daemon() as daemon:
            client = self.record("large.pftrace", text + events)
            self.wait_recording(seconds=2)
            self.assertEqual(daemon.end(), 0)
            _, stderr = client.communicate(timeout=20)
            self.assertEqual(client.returncode, 0, stderr)
        [end] = [packet for packet in lib.of_kind(lib.decode(self.root / "large.pftrace"), "service_event")
                 if "tracing_disabled" in packet.one("service_event")]
        self.assertTrue(end)

    def test_one_that_does_not_read_holds_nobody_up(self):
        with self.daemon() as daemon:
            stopped = self.record("stopped.pftrace", COUNTERS)
            other = self.record("other.pftrace", COUNTERS)
            self.wait_recording(2)
            stopped.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            self.assertEqual(daemon.end(), 0)
            self.assertLess(time.monotonic() - began, 12)
            self.assertIn("recordings that were not read in time: 1", daemon.said())
            other.communicate(timeout=20)
            self.assertEqual(other.returncode, 0)
            stopped.send_signal(signal.SIGCONT)
            _, stderr = stopped.communicate(timeout=20)
            self.assertEqual(stopped.returncode, 1, stderr)

    def test_no_new_session_while_it_ends(self):
        with self.daemon() as daemon:
            stopped = self.record("stopped.pftrace", COUNTERS)
            self.wait_recording()
            stopped.send_signal(signal.SIGSTOP)
            daemon.process.send_signal(signal.SIGTERM)
            wait_for(lambda: any(" done " in line for line in self.sessions()), "the session does not end")
            late = self.record("late.pftrace", COUNTERS)
            _, stderr = late.communicate(timeout=20)
            self.assertEqual(late.returncode, 1)
            self.assertIn("the tracing service ends", stderr)

    @unittest.skipUnless(test_ipc.find_perfetto(), "needs Perfetto's client, in PATH or below PERFETTO_ROOT")
    def test_perfettos_client_gets_its_trace(self):
        argv, root = test_ipc.find_perfetto()
        with tempfile.TemporaryDirectory(dir=root / "tmp") as folder, self.daemon() as daemon:
            inside = pathlib.Path("/", pathlib.Path(folder).relative_to(root))
            pathlib.Path(folder, "config").write_text(COUNTERS + "duration_ms: 60000\n")
            client = self.client([*argv, "-c", inside / "config", "--txt", "-o", inside / "trace"])
            self.wait_recording()
            self.assertEqual(daemon.end(), 0)
            _, stderr = client.communicate(timeout=20)
            self.assertEqual(client.returncode, 0, stderr)
            self.assertGreater(len(samples(pathlib.Path(folder, "trace"))), 5)


@lib.needs_root
class ServiceKilled(Case):
    def test_in_memory(self):
        with self.daemon() as daemon:
            client = self.record("lost.pftrace", COUNTERS)
            self.wait_recording()
            daemon.end(signal.SIGKILL)
            _, stderr = client.communicate(timeout=20)
            self.assertEqual(client.returncode, 1)
            self.assertIn("lost.pftrace: no trace: the tracing service died", stderr)
            self.assertFalse((self.root / "lost.pftrace").exists())

    def test_into_a_file(self):
        with self.daemon() as daemon:
            client = self.record("kept.pftrace", INTO_FILE)
            self.wait_recording()
            daemon.end(signal.SIGKILL)
            _, stderr = client.communicate(timeout=20)
            self.assertEqual(client.returncode, 1)
            self.assertRegex(stderr, r"kept.pftrace: the tracing service died; the \d+ bytes .* are a readable trace")
        self.assertGreater(len(samples(self.root / "kept.pftrace")), 3)
        database = self.root / "kept.db"
        self.assertEqual(lib.run(lib.MMSQL, "convert", self.root / "kept.pftrace", "-o", database).returncode, 0)
        asked = lib.run(lib.MMSQL, "query", database, "SELECT value FROM stats WHERE name = 'mmsql_recording_cut'")
        self.assertIn("1", asked.stdout)


@lib.needs_root
class ClientKilled(Case):
    """What stays in memory goes with the client; what goes into a file ends and is written."""

    def killed(self, text, *options):
        with self.daemon():
            client = self.record("of_client.pftrace", text, *options)
            self.wait_recording()
            client.kill()
            client.wait()
            wait_for(lambda: not self.sessions(), "the session stays")

    def test_in_memory(self):
        self.killed(COUNTERS)
        self.assertEqual((self.root / "of_client.pftrace").stat().st_size, 0)

    def test_into_a_file(self):
        # The second write-out would come later than this test ends.
        self.killed(INTO_FILE.replace("file_write_period_ms: 100", "file_write_period_ms: 60000"))
        packets = lib.decode(self.root / "of_client.pftrace")
        self.assertGreater(len(lib.of_kind(packets, "sys_stats")), 5)
        self.assertTrue(any("tracing_disabled" in packet.one("service_event")
                            for packet in lib.of_kind(packets, "service_event")))

    def test_detached(self):
        with self.daemon():
            done = self.record("detached.pftrace", INTO_FILE + "duration_ms: 2000\n", "--detach=key")
            _, stderr = done.communicate(timeout=20)
            self.assertEqual(done.returncode, 0, stderr)
            self.wait_recording(seconds=0)
            wait_for(lambda: not self.sessions(), "the session stays")
        times = samples(self.root / "detached.pftrace")
        self.assertGreater((times[-1] - times[0]) / 1e9, 1.2)


if __name__ == "__main__":
    unittest.main()
