# SPDX-License-Identifier: Apache-2.0
"""Users that ask the daemon for more than their share (docs/threat-model.md)."""
import concurrent.futures
import contextlib
import ctypes
import os
import pathlib
import resource
import socket
import struct
import tempfile
import time
import unittest

import lib
import states
import strangers
from protowire import bind, field, invoke
from strangers_daemon import ACTIVATE, CONFIG, Daemon, ENABLE, INITIALIZE, SERVED_S
from strangers_member import Members


@lib.needs_root
class Triggers(unittest.TestCase):
    """M7: triggers without end, from any user."""

    KEEP = 4

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mmtrace-triggers-")
        self.addCleanup(folder.cleanup)
        armed = pathlib.Path(folder.name)
        (armed / "ring.cfg").write_text(CONFIG + """trigger_config { trigger_mode: CLONE_SNAPSHOT
            trigger_timeout_ms: 600000
            triggers { name: "now" stop_delay_ms: 1 } triggers { name: "few" stop_delay_ms: 1
              max_per_24_h: 2 } }""")
        self.daemon = Daemon(self, "--keep-files", str(self.KEEP), armed=armed).ready()
        lib.wait_for(lambda: "armed/ring.cfg: armed" in self.daemon.said(), self.daemon.said)

    def trigger(self, name="now"):
        """Fires a trigger as root; returns the messages of the command."""
        done = lib.run(lib.MMTRACE, "trigger", name, env=self.daemon.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def traces(self, name="now"):
        return sorted((self.daemon.state / "traces").glob(f"ring-{name}-*.pftrace"))

    @staticmethod
    def fire(voice, path, name, n):
        """Fires n triggers, and says so when all are answered; then goes on for ever."""
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(path))
        client.sendall(bind(b"ProducerPort") + invoke(2, INITIALIZE, field(3, b"x")))
        for i in range(n):
            client.sendall(invoke(3 + i, ACTIVATE, field(1, name)))
        answers = client.makefile("rb")
        for _ in range(n + 2):
            size, = struct.unpack("<I", answers.read(4))
            answers.read(size)
        voice.say("fired")
        client.setblocking(False)
        while True:
            try:
                client.send(invoke(9, ACTIVATE, field(1, name)))
            except BlockingIOError:
                time.sleep(0.01)
            with contextlib.suppress(BlockingIOError):
                client.recv(65536)

    @staticmethod
    def is_of_root(path):
        """Whether a trigger of root caused the trace. The daemon may remove other traces
        meanwhile."""
        with contextlib.suppress(FileNotFoundError):
            return not path.stat().st_mode & 0o1000
        return False

    def test_evidence_stays(self):
        """Traces of root's triggers stay, those from before the attack and those made during the
        attack."""
        for i in range(self.KEEP):
            self.trigger()
            lib.wait_for(lambda: len(self.traces()) == i + 1, self.daemon.said)
        before = self.traces()
        stranger = strangers.Stranger(self.fire, self.daemon.run_dir / "producer.sock", b"now", 300)
        self.addCleanup(stranger.end)
        others = strangers.Timed(self.daemon.status)
        try:
            self.assertEqual(stranger.hear(), "fired")
            lib.wait_for(lambda: "is held back: " in self.daemon.said(), self.daemon.said)
            self.daemon.status()
        finally:
            longest, median = others.stop()
        strangers.figure(self,
                         f"status of root while under attack: {longest * 1e3:.0f} ms at most, "
                         f"{median * 1e3:.0f} ms median")
        self.assertEqual(others.errors, [])
        self.assertEqual([path for path in before if not path.exists()], [])
        self.assertEqual(self.trigger(), "")
        lib.wait_for(lambda: any(p not in before and self.is_of_root(p) for p in self.traces()),
                     self.daemon.said)
        self.assertIn(f"of user {strangers.UID} is held back: ", self.daemon.said())

    def test_no_core_is_kept_busy(self):
        stranger = strangers.Stranger(self.fire, self.daemon.run_dir / "producer.sock",
                                      b"nobody waits for it", 1200)
        self.addCleanup(stranger.end)
        self.assertEqual(stranger.hear(), "fired")
        # The stranger sleeps whenever the socket is full: the daemon has more to read than it
        # reads.
        share = states.wait_for_rest(self.daemon.process.pid, 0.15,
                                     lambda: states.wait_for_turns(stranger.pid, 150))
        self.daemon.status()
        strangers.figure(self, f"the daemon takes {share * 100:.1f} % of a processor")

    def test_max_per_24_h_of_root(self):
        stranger = strangers.Stranger(self.fire, self.daemon.run_dir / "producer.sock", b"few", 20)
        self.addCleanup(stranger.end)
        self.assertEqual(stranger.hear(), "fired")
        self.assertEqual(self.trigger("few"), "")


@lib.needs_root
class Budgets(unittest.TestCase):
    """The memory and the log lines that one user can cost the daemon."""

    def setUp(self):
        self.daemon = Daemon(self, "--consumer-group", str(strangers.UID)).ready()

    def attack(self, act, *arguments):
        stranger = strangers.Stranger(act, self.daemon.run_dir, *arguments)
        self.addCleanup(stranger.end)
        others = strangers.Timed(self.daemon.status)
        try:
            self.assertEqual(stranger.hear(), "done")
            self.daemon.status()
        finally:
            longest, median = others.stop()
        strangers.figure(self,
                         f"status of root while under attack: {longest * 1e3:.0f} ms at most, "
                         f"{median * 1e3:.0f} ms median, the daemon has {self.daemon.rss_kb()} kB")
        self.assertEqual(others.errors, [])
        self.assertLess(longest, SERVED_S)

    @staticmethod
    def unfinished(voice, run_dir):
        """Many connections, each with the largest frame but for its last byte."""
        held = []
        for _ in range(110):
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            held.append(client)
            with contextlib.suppress(OSError):
                client.connect(str(run_dir / "producer.sock"))
                data = struct.pack("<I", 120000) + bytes(119999)
                end = time.monotonic() + 0.2
                while data and time.monotonic() < end:
                    with contextlib.suppress(BlockingIOError):
                        data = data[client.send(data):]
        voice.say("done")
        voice.stay()

    def test_unfinished_requests(self):
        before = self.daemon.rss_kb()
        self.attack(self.unfinished)
        self.assertLess(self.daemon.rss_kb(), before + 12288)
        self.assertIn("more than 8 MiB", self.daemon.said())

    @staticmethod
    def many_uids(voice, run_dir):
        """Opens connections of many uids that one user has in a user namespace."""
        if ctypes.CDLL(None, use_errno=True).unshare(strangers.CLONE_NEWUSER) < 0:
            voice.say(f"cannot: no user namespaces: {os.strerror(ctypes.get_errno())}")
        voice.say("waits")
        while not pathlib.Path("/proc/self/uid_map").read_text():
            time.sleep(0.01)
        held, n = [], 0
        for uid in range(1, strangers.UIDS_EACH):
            os.setresuid(uid, uid, 0)
            for _ in range(20):
                client = socket.socket(socket.AF_UNIX)
                client.settimeout(SERVED_S)
                held.append(client)
                client.connect(str(run_dir / "producer.sock"))
                with contextlib.suppress(OSError):
                    client.sendall(bind(b"ProducerPort"))
                    n += client.recv(4096) != b""
            os.setresuid(0, 0, 0)
        voice.say(f"{n}")
        voice.stay()

    def test_many_uids_of_one_user(self):
        stranger = strangers.Stranger(self.many_uids, self.daemon.run_dir)
        self.addCleanup(stranger.end)
        self.assertEqual(stranger.hear(), "waits")
        # as newuidmap does for the subordinate uids of a user
        pathlib.Path(f"/proc/{stranger.pid}/uid_map").write_text(
            f"0 {strangers.UID} {strangers.UIDS_EACH}\n")
        n = int(stranger.hear())
        self.assertGreater(n, 0)
        self.assertLessEqual(n, 128)
        self.daemon.status()

    @staticmethod
    def refused(voice, run_dir, n):
        """Requests for sessions that are refused, each with a line in the log."""
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(run_dir / "consumer.sock"))
        client.sendall(bind())
        client.settimeout(0.5)
        for i in range(n):
            client.sendall(invoke(2 + i, ENABLE, field(1, field(22, b"x%d" % i))))
        answers = b""
        with contextlib.suppress(TimeoutError):
            while True:
                answers += client.recv(65536)
        voice.say("done" if b"requests for sessions" in answers
                  else f"no limit in {answers[-200:]}")
        voice.stay()

    def test_refused_sessions(self):
        lines = self.daemon.said().count("\n")
        self.attack(self.refused, 400)
        self.assertLess(self.daemon.said().count("\n") - lines, 130)


@lib.needs_root
class Expressions(unittest.TestCase):
    """M1: a config whose expressions would take gigabytes; its author may record, but has no other
    right."""

    def setUp(self):
        limit = 4 << 30  # so that a successful attack does not exhaust the machine
        self.daemon = Daemon(
            self, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))).ready()

    def enable(self, *expressions):
        """The daemon's answer to a config with a trigger for each expression, sent without the
        client's own checks."""
        source = field(2, field(1, field(1, b"linux.sys_stats")))
        triggers = b"".join(field(2, field(1, b"x%d" % i) + field(2, text) + field(3, 1))
                            for i, text in enumerate(expressions))
        config = field(1,
                       field(1, 64)) + source + field(17, field(1, 2) + triggers + field(3, 600000))
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(str(self.daemon.run_dir / "consumer.sock"))
            client.sendall(bind() + invoke(2, ENABLE, field(1, config)))
            data = b""
            while b"_regex" not in data:
                part = client.recv(65536)
                self.assertTrue(part, self.daemon.said())
                data += part
        return data

    def test_what_would_take_gigabytes(self):
        rss_kb = self.daemon.rss_kb()
        others = strangers.Timed(self.daemon.status)
        for text in (b"a" + b"+" * 40, b"(" * 12 + b"a+" + b")+" * 12, b"((a|b)*(a|b)?){200}"):
            self.assertIn(b"more than 256 characters", self.enable(text))
        longest, _ = others.stop()
        self.assertEqual(others.errors, [])
        self.assertLess(longest, SERVED_S)
        self.assertLess(self.daemon.rss_kb(), rss_kb + 4096)
        self.assertEqual(self.daemon.end(), 0)

    def test_very_many(self):
        self.assertIn(b"more than 32 expressions", self.enable(*[b"a{255}"] * 33))


@lib.needs_root
class Configs(Members):
    """Numbers in the config of a user who may record, but has no other right of root's."""

    def as_member(self, config, duration_ms, name="trace"):
        path = self.dir / f"{name}.cfg"
        path.write_text(f"buffers {{ size_kb: 256 }} duration_ms: {duration_ms} " + config)
        return lib.run(lib.MMTRACE, "record", "-c", path, "-o", self.dir / name,
                       env=self.daemon.env, user=strangers.UID, group=strangers.UID,
                       extra_groups=[], timeout_s=120)

    def record(self, config, duration_ms=300):
        others = strangers.Timed(self.daemon.status)
        done = self.as_member(config, duration_ms)
        longest, _ = others.stop()
        self.assertEqual(others.errors, [])
        self.assertLess(longest, SERVED_S)
        return done

    @lib.needs_tracefs
    def test_the_kernels_buffers(self):
        """The kernel would allocate any size, and the daemon would stand still meanwhile."""
        done = self.record('data_sources { config { name: "linux.ftrace" ftrace_config { '
                           'ftrace_events: "oom/mark_victim" buffer_size_kb: 4294967295 } } }')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("buffer_size_kb is lowered to", self.daemon.said())

    def test_very_many_data_sources(self):
        """Each data source takes memory of the daemon."""
        before = self.daemon.rss_kb()
        source = 'data_sources { config { name: "linux.sys_stats" } } '
        for n, error in ((257, "data_sources: 257 are more than the maximum of 256"),
                         (33, f"data_sources: user {strangers.UID} asks for 33, no more than 32")):
            done = self.record(source * n)
            self.assertEqual(done.returncode, 1)
            self.assertIn(error, done.stderr)
        done = self.record(source * 32, duration_ms=2000)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(self.daemon.rss_kb(), before + 24576)

    def test_very_many_looks_at_files(self):
        """Each of the data sources may take a second for its last look, but not all of them."""
        files = self.dir / "files"
        files.mkdir()
        for i in range(10000):
            (files / str(i)).write_bytes(b"x")
        begin = time.monotonic()
        done = self.record(f'''data_sources {{ config {{ name: "linux.page_residency"
            page_residency_config {{ paths: "{files}" max_files: 1000000 period_ms: 1 }} }} }}
            ''' * 32, duration_ms=4000)  # on a busy machine, some sources begin later
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(time.monotonic() - begin, 19)

    def test_sessions_one_after_the_other(self):
        """The start of a session takes time, even if the session ends at once."""
        config = '''data_sources { config { name: "linux.process_stats" process_stats_config {
            scan_all_processes_on_start: true scan_smaps_rollup: true resolve_process_fds: true
            record_thread_names: true proc_stats_poll_ms: 100 } } } ''' * 32
        begin, before = time.monotonic(), self.daemon.cpu_s()

        def is_refused(name):
            while time.monotonic() - begin < 40:
                if "no further session for" in self.as_member(config, 1, name).stderr:
                    return True
            return False

        # Two clients keep the daemon busy all the time. 10 s of both quarters may be used up ahead.
        others = strangers.Timed(self.daemon.status)
        with concurrent.futures.ThreadPoolExecutor() as clients:
            refused = list(clients.map(is_refused, ("one", "two")))
        longest, _ = others.stop()
        self.assertEqual(others.errors, [])
        self.assertLess(longest, SERVED_S)
        spent, elapsed = self.daemon.cpu_s() - before, time.monotonic() - begin
        strangers.figure(self, f"{spent:.1f} s of processor time in {elapsed:.1f} s")
        self.assertTrue(all(refused) or spent < 0.5 * (elapsed + 10),
                        f"{spent:.1f} s in {elapsed:.1f} s")
        root = lib.run(lib.MMTRACE, "record", "-c", self.dir / "one.cfg", "-o", self.dir / "own",
                       env=self.daemon.env)
        self.assertEqual(root.returncode, 0, root.stderr)

    def test_very_many_readings(self):
        """The data sources could keep the loop busy all the time."""
        begin, before = time.monotonic(), self.daemon.cpu_s()
        done = self.record("flush_period_ms: 10 " + '''data_sources { config {
            name: "linux.sys_stats" sys_stats_config { stat_period_ms: 10 buddyinfo_period_ms: 10
              vmstat_period_ms: 10 meminfo_period_ms: 10 psi_period_ms: 10 slab_period_ms: 10 } } }
            ''' * 32, duration_ms=4000)
        spent, elapsed = self.daemon.cpu_s() - before, time.monotonic() - begin
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "[0-9,]+ readings left out: too late")
        self.assertLess(spent, 0.6 * elapsed)  # with the answers to others, and start and end


if __name__ == "__main__":
    unittest.main()
