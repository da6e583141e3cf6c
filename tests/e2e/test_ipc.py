# SPDX-License-Identifier: Apache-2.0
"""The daemon's sockets, end to end: clients that misbehave, and Perfetto's own client.

The test looks for Perfetto's client in PATH, or in a root file system of its own that PERFETTO_ROOT
names.
"""
import array
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import lib
import states
from protowire import bind, field, fields, frame, invoke

GAP_S = 1.0  # between two samples: the config asks for 50 ms, but the machine may be busy
BUFFERED = """
buffers { size_kb: 1024 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 50 } } }
"""


def find_perfetto():
    """The argv before the client's arguments, and its root; or None."""
    root = os.environ.get("PERFETTO_ROOT", "")
    if root and os.access(f"{root}/usr/bin/perfetto", os.X_OK):
        return ["chroot", root, "/usr/bin/perfetto"], pathlib.Path(root)
    path = shutil.which("perfetto")
    return ([path], pathlib.Path("/")) if path else None


class Daemon:
    """A running daemon with abstract sockets, so that a client in another root reaches it."""

    n_started = 0

    def __init__(self):
        Daemon.n_started += 1
        self.dir = tempfile.TemporaryDirectory(prefix="mmtrace-ipc-")
        root = pathlib.Path(self.dir.name)
        name = f"@mmtrace-e2e-{os.getpid()}-{Daemon.n_started}"
        self.consumer, self.producer = f"{name}-consumer", f"{name}-producer"
        self.env = {**os.environ, "PERFETTO_CONSUMER_SOCK_NAME": self.consumer,
                    "PERFETTO_PRODUCER_SOCK_NAME": self.producer}
        self.log_path = root / "log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [lib.MMTRACE, "daemon", "--armed", "none", "--kmem-events", "none",
                 "--state-dir", root / "state", "--run-dir", root / "run"],
                stderr=log, env=self.env)
        self.until(lambda: self.try_connect(self.producer), "an answer of the daemon")

    def try_connect(self, name):
        try:
            self.connect(name).close()
            return True
        except OSError:
            return False

    def connect(self, name=None):
        client = socket.socket(socket.AF_UNIX)
        try:
            client.settimeout(60)
            client.connect((name or self.consumer).replace("@", "\0", 1))
        except OSError:
            client.close()
            raise
        return client

    def until(self, condition, what):
        try:
            lib.wait_for(lambda: self.process.poll() is not None or condition(), what)
            self.process.poll() is None or lib.wait_for(lambda: False, "the daemon has ended", 0)
        except AssertionError as error:
            raise AssertionError(
                f"{error}; the daemon says:\n{self.log_path.read_text()}") from None

    def n_fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def settled_n_fds(self):
        """The number of descriptors after the connections of try_connect() are closed: the daemon
        closes them before it answers."""
        for name, service in ((self.producer, b"ProducerPort"), (self.consumer, b"ConsumerPort")):
            client = Client(self, name, service)
            n = self.n_fds()
            client.close()
            lib.wait_for(lambda: self.n_fds() < n, "the end of a connection")
        return n - 1

    def status_kb(self, name):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(name + r":\s+(\d+)", text)[1])

    def rss_kb(self):
        return self.status_kb("VmRSS")

    def own_kb(self):
        """The memory without pages of files, which the kernel evicts and reads back at any time."""
        return sum(map(self.status_kb, ("RssAnon", "RssShmem", "VmSwap")))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.dir.cleanup()
        return code


QUERY_STATE, FLUSH, SAVE_TRACE, INITIALIZE, REGISTER = 12, 5, 14, 1, 2


class BadClients(unittest.TestCase):
    """Other tests check the answer to each bad client. This test checks that no other client loses
    anything."""

    def setUp(self):
        self.daemon = Daemon()
        self.addCleanup(lambda: self.daemon.process.poll() is None and self.daemon.stop())
        self.n_fds = self.daemon.settled_n_fds()

    def spoil(self):
        """Makes all kinds of bad clients, one after the other. Returns the clients that stay
        connected."""
        daemon, stay = self.daemon, []

        def one(data, name=None, fds=()):
            client = daemon.connect(name)
            try:
                client.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                         array.array("i", fds))] if fds else [])
            except OSError:
                pass
            return client

        for name in (daemon.consumer, daemon.producer):
            for data in (b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\x05\0\0\0\xff\xff\xff\xff\xff",
                         os.urandom(4000),
                         b"\0" * 100000, bind(b"NoSuchPort"), invoke(1, 0), invoke(1, 999),
                         invoke(1, 1, b"\xff")):
                one(data, name).close()
            stay.append(one(b"\x40\0\0", name))                     # half a frame
            stay.append(one(b"", name))                             # silence
            stay.append(one(invoke(1, FLUSH), name, [0, 1, 2] * 3))  # descriptors where none belong
        # Instructions inside instructions, tens of thousands of them.
        nested = b""
        while len(nested) < 120000:
            nested = field(7, nested)
        one(invoke(1, INITIALIZE) + invoke(2, REGISTER, field(1, field(10, field(2, nested)))),
            daemon.producer).close()
        # A client that sends requests all the time, and never reads.
        deaf = daemon.connect()
        deaf.setblocking(False)
        try:
            for i in range(100000):
                deaf.send(invoke(i + 1, QUERY_STATE))
        except OSError:
            pass
        stay.append(deaf)
        # Clients that connect and leave, some thousand times.
        for _ in range(3000):
            try:
                client = socket.socket(socket.AF_UNIX)
                client.setblocking(False)
                client.connect(daemon.consumer.replace("@", "\0", 1))
            except OSError:
                pass
            client.close()
        # Many clients at once.
        for _ in range(600):
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(5)
            try:
                client.connect(daemon.consumer.replace("@", "\0", 1))
                stay.append(client)
            except OSError:
                client.close()
        return stay

    def test_a_session_does_not_notice(self):
        for _ in range(3):  # a busy machine makes any program late
            longest_ns, lasted = self.record_among_them()
            if longest_ns < GAP_S * 1e9 and lasted < 20:
                break
        self.assertLess(longest_ns, GAP_S * 1e9)
        self.assertLess(lasted, 20)
        self.assertLess(self.daemon.rss_kb(), 32768)
        self.assertEqual(self.daemon.stop(), 0)

    def record_among_them(self):
        """Returns the longest time without a sample, during the clients' attempts and afterwards,
        and the duration of the attempts."""
        trace = pathlib.Path(self.daemon.dir.name) / "trace"
        config = pathlib.Path(self.daemon.dir.name) / "config"
        config.write_text(BUFFERED)
        recording = subprocess.Popen([lib.MMTRACE, "record", "-c", config, "-o", trace, "--quiet"],
                                     env=self.daemon.env, stderr=subprocess.PIPE)
        self.addCleanup(recording.stderr.close)
        states.wait_for_reads(self.daemon.process.pid, 10)
        begin = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        stay = self.spoil()
        lasted = (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - begin) / 1e9
        # a session that takes no more samples has a gap of this length at its end
        time.sleep(GAP_S)
        end = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        recording.send_signal(signal.SIGINT)
        self.assertEqual(recording.wait(60), 0, recording.stderr.read())
        sampled = [p.one("timestamp") for p in lib.of_kind(lib.decode(trace), "sys_stats")]
        stamps = [begin, *sorted(stamp for stamp in sampled if begin < stamp < end), end]
        for client in stay:
            client.close()
        self.daemon.until(lambda: self.daemon.n_fds() == self.n_fds,
                          lambda: f"{self.n_fds} descriptors, not {self.daemon.n_fds()}")
        return max(b - a for a, b in zip(stamps, stamps[1:])), lasted


class Client:
    """A connection that makes calls and waits for their last reply."""

    def __init__(self, daemon, name=None, service=b"ConsumerPort"):
        self.socket = daemon.connect(name)
        self.last_id = 0
        self.socket.sendall(bind(service))
        self.receive()

    def exactly(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("hung up")
            data += part
        return data

    def receive(self):
        return fields(self.exactly(struct.unpack("<I", self.exactly(4))[0]))

    def send(self, method, args=b"", fds=()):
        self.last_id += 1
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([invoke(self.last_id, method, args)], ancillary)
        return self.last_id

    def call(self, method, args=b"", fds=()):
        """The message of the reply; None if the call was refused."""
        wanted = self.send(method, args, fds)
        while True:
            answer = self.receive()
            reply = fields(answer.get(6, b""))
            if answer.get(2) == wanted and not reply.get(2):
                return reply.get(3, b"") if reply.get(1) else None

    def close(self):
        self.socket.close()


class Months(unittest.TestCase):
    """Thousands of sessions that begin and end leave nothing behind."""

    N_CYCLES = int(os.environ.get("MMTRACE_CYCLES", "600"))
    CLONE_SNAPSHOT = 4
    ENABLE, DISABLE, READ, FREE, FLUSH, STATS, STATE, CLONE, DETACH, ATTACH, OBSERVE = (
        1, 2, 3, 4, 5, 10, 12, 15, 8, 9, 11)
    INITIALIZE, ACTIVATE = 1, 10

    def config(self, name, source=b"linux.sys_stats", in_file=False):
        """A config that writes into a file, or one that waits for triggers."""
        trigger = field(1, b"now") + field(3, 1)
        waits = field(17, field(1, self.CLONE_SNAPSHOT) + field(2, trigger) + field(3, 3600000))
        return (field(1, field(1, 64)) + field(2, field(1, field(1, source))) + field(22, name) +
                (field(8, 1) if in_file else waits))

    def cycle(self, daemon, number, file):
        name = b"session %d" % (number % 3)
        first, second, third = (Client(daemon) for _ in range(3))
        producer = Client(daemon, daemon.producer, b"ProducerPort")
        source = b"linux.ftrace" if number % 50 == 0 and os.access(
            lib.TRACEFS / "instances", os.W_OK) else b"linux.sys_stats"
        first.send(self.OBSERVE, field(1, 1) + field(1, 4))
        in_file = number % 2  # then snapshots go into files, too
        file.truncate(0)
        first.send(self.ENABLE, field(1, self.config(name, source, in_file)), [file.fileno()])
        self.assertIsNotNone(first.call(self.FLUSH), daemon.log_path.read_text())
        self.assertIsNotNone(producer.call(self.INITIALIZE, field(3, b"somebody")))
        # more than may wait
        self.assertIsNotNone(producer.call(self.ACTIVATE, field(1, b"now") * 20))
        self.assertIn(b"unique_session_name", second.call(self.ENABLE, field(1, self.config(name))))
        answer = fields(second.call(self.CLONE, field(4, name)))
        self.assertEqual(answer[1], 1 - in_file)
        self.assertIsNotNone(second.call(self.READ))
        with tempfile.TemporaryFile() as copy:
            answer = fields(third.call(self.CLONE, field(4, name), [copy.fileno()]))
            self.assertEqual(answer[1], 1, answer)
            self.assertEqual(os.fstat(copy.fileno()).st_size > 0, bool(in_file))
        self.assertIsNotNone(first.call(self.STATS))
        self.assertIsNotNone(first.call(self.STATE))
        self.assertIsNotNone(first.call(self.DETACH, field(1, name)))
        first.close()
        fourth = Client(daemon)
        self.assertIsNotNone(fourth.call(self.ATTACH, field(1, name)))
        self.assertIsNotNone(fourth.call(self.DISABLE))
        for client in (second, third, producer, fourth):
            client.close()

    def test_nothing_grows(self):
        daemon = Daemon()
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.stop())
        with tempfile.TemporaryFile() as file:
            for number in range(200):
                self.cycle(daemon, number, file)
            n_fds = daemon.settled_n_fds()
            most_kb = 128 + self.N_CYCLES // 20  # up to 50 bytes a cycle do not count
            grown_kb = self.growth_kb(daemon, file)
            if grown_kb >= most_kb and not lib.is_sanitized():
                # On a busy machine more requests wait at a time. A leak grows again.
                again_kb = self.growth_kb(daemon, file)
                self.assertLess(again_kb, most_kb, f"after a growth by {grown_kb} kB")
        self.assertEqual(daemon.settled_n_fds(), n_fds)
        self.assertEqual(daemon.stop(), 0)

    def growth_kb(self, daemon, file):
        before_kb = daemon.own_kb()
        for number in range(self.N_CYCLES):
            self.cycle(daemon, number, file)
        daemon.settled_n_fds()
        after_kb = daemon.own_kb()
        if "MMTRACE_CYCLES" in os.environ:
            print(f"{self.N_CYCLES} cycles: {before_kb} kB -> {after_kb} kB")
        return after_kb - before_kb


class Memory(unittest.TestCase):
    @lib.needs_root
    def test_later_buffers_are_locked_too(self):
        daemon = Daemon()
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.stop())
        if lib.is_sanitized():
            self.skipTest("a sanitizer lets nothing be locked")
        daemon.until(lambda: daemon.status_kb("VmLck") > 0, "locked memory")
        before, rss_kb = daemon.status_kb("VmLck"), daemon.rss_kb()
        client = Client(daemon)
        self.addCleanup(client.close)
        client.send(1, field(1, field(1, field(1, 16384))
                             + field(2, field(1, field(1, b"linux.sys_stats")))))
        self.assertIsNotNone(client.call(FLUSH))
        self.assertGreaterEqual(daemon.status_kb("VmLck") - before, 16384)
        # the daemon allocates 8 MiB at the start, and more as the buffer fills
        self.assertLess(daemon.rss_kb() - rss_kb, 8192 + 4096)


class Sockets(unittest.TestCase):
    """The sockets of the daemon."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mmtrace-ipc-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.env = {**os.environ, "PERFETTO_CONSUMER_SOCK_NAME": str(self.dir / "consumer"),
                    "PERFETTO_PRODUCER_SOCK_NAME": f"{self.dir}/producer,{self.dir}/second"}
        self.argv = [str(lib.MMTRACE), "daemon", "--armed", "none", "--kmem-events", "none",
                     "--state-dir", str(self.dir / "state"), "--run-dir", str(self.dir / "run")]

    def start(self, *options, **popen):
        popen.setdefault("env", self.env)
        process = subprocess.Popen([*self.argv, *options], stderr=subprocess.PIPE, text=True,
                                   **popen)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return process

    def answers(self, path, request):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(str(path))
            client.sendall(request)
            return client.recv(4096)

    def wait_for_sockets(self):
        """Waits until the sockets exist, and checks their modes and the group."""
        lib.wait_for(lambda: (self.dir / "second").exists() and (self.dir / "consumer").exists() and
                     self.mode("consumer") == 0o660 and self.mode("second") == 0o666 and
                     (self.dir / "consumer").stat().st_gid == 12345, "the daemon's sockets")

    def mode(self, name):
        return (self.dir / name).stat().st_mode & 0o777

    @lib.needs_root
    def test_paths(self):
        daemon = self.start("--consumer-group", "12345")
        self.wait_for_sockets()
        self.assertEqual(self.mode("consumer"), 0o660)
        self.assertEqual((self.dir / "consumer").stat().st_gid, 12345)
        self.assertEqual(self.mode("producer"), 0o666)
        for name, service in (("consumer", b"ConsumerPort"), ("second", b"ProducerPort")):
            self.assertIn(b"Trac" if name == "consumer" else b"ActivateTriggers",
                          self.answers(self.dir / name, bind(service)))
        other = self.start("--run-dir", str(self.dir / "run2"))
        self.assertEqual(other.wait(60), 1)
        self.assertIn("another service listens there", other.stderr.read())
        daemon.terminate()
        self.assertEqual(daemon.wait(60), 0)
        self.assertEqual([p.name for p in self.dir.iterdir() if p.is_socket()], [])

    @lib.needs_root
    def test_strangers_may_not_record(self):
        self.start("--consumer-group", "12345")
        self.wait_for_sockets()
        os.chmod(self.dir, 0o755)
        # like a careless unit file: the daemon still checks users
        os.chmod(self.dir / "consumer", 0o666)
        script = "import os, socket, sys; os.setgroups([]); " \
                 "os.setgid(int(sys.argv[3])); os.setuid(54321)\n" \
                 "s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect(sys.argv[1])\n" \
                 "try: s.sendall(bytes.fromhex(sys.argv[2])); print(len(s.recv(4096)))\n" \
                 "except OSError: print(0)"
        sizes = []
        for gid in (54321, 12345):
            done = lib.run("python3", "-c", script, self.dir / "consumer", bind().hex(), gid)
            sizes.append(int(done.stdout))
        self.assertEqual(sizes[0], 0)
        self.assertGreater(sizes[1], 0)

    @lib.needs_root
    def test_sessions_of_others_are_not_reported(self):
        self.start("--consumer-group", "12345")
        self.wait_for_sockets()
        os.chmod(self.dir, 0o755)
        config = self.dir / "config"
        config.write_text(BUFFERED + 'unique_session_name: "a secret" duration_ms: 20000')
        recording = subprocess.Popen([lib.MMTRACE, "record", "-c", config, "-o", self.dir / "trace",
                                      "--quiet"], env=self.env)
        self.addCleanup(recording.wait)
        self.addCleanup(recording.kill)
        script = "import os, socket, sys; os.setgroups([]); os.setgid(12345); " \
                 "os.setuid(int(sys.argv[3]))\n" \
                 "s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect(sys.argv[1])\n" \
                 "s.sendall(bytes.fromhex(sys.argv[2])); print(s.recv(65536).hex())"
        request = invoke(1, QUERY_STATE, field(1, 1))

        def told(uid):
            return bytes.fromhex(lib.run("python3", "-c", script, self.dir / "consumer",
                                         request.hex(), uid).stdout)

        lib.wait_for(lambda: b"a secret" in told(0), "the session")
        answer = told(54321)
        self.assertIn(b"mmtrace", answer)
        self.assertNotIn(b"a secret", answer)

    def test_sockets_of_the_service_manager(self):
        listeners = []
        for name in ("consumer", "producer"):
            listener = socket.socket(socket.AF_UNIX)
            self.addCleanup(listener.close)
            listener.bind(str(self.dir / f"passed-{name}"))
            listener.listen()
            listeners.append(listener)

        def pass_them():
            copies = [os.dup2(x.fileno(), 50 + i) for i, x in enumerate(listeners)]
            for i, copy in enumerate(copies):
                os.dup2(copy, 3 + i, inheritable=True)

        self.argv = ["sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", *self.argv]
        daemon = self.start(preexec_fn=pass_them, close_fds=False,
                            env={**self.env, "LISTEN_FDS": "2",
                                 "LISTEN_FDNAMES": "consumer:producer"})
        # A client that connects before the daemon serves waits for the daemon.
        self.assertIn(b"EnableTracing", self.answers(self.dir / "passed-consumer", bind()))
        self.assertIn(b"ActivateTriggers",
                      self.answers(self.dir / "passed-producer", bind(b"ProducerPort")))
        self.assertFalse((self.dir / "consumer").exists())
        daemon.terminate()
        self.assertEqual(daemon.wait(60), 0)
        self.assertTrue((self.dir / "passed-consumer").exists())


@unittest.skipUnless(find_perfetto(), "needs Perfetto's client, in PATH or below PERFETTO_ROOT")
class PerfettoClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.argv, cls.root = find_perfetto()
        cls.daemon = Daemon()
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-ipc-", dir=cls.root / "tmp"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)
        cls.daemon.stop()

    def inside(self, name):
        """The path of a file as the client sees it."""
        return "/" + str((self.dir / name).relative_to(self.root))

    def config(self, text):
        (self.dir / "config").write_text(text + "\n")  # its parser wants a blank at the end
        return ["-c", self.inside("config"), "--txt"]

    def perfetto(self, *arguments, code=0):
        done = lib.run(*self.argv, *arguments, env=self.daemon.env)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stderr)
        return done

    def stats_of(self, name):
        return lib.of_kind(lib.decode(self.dir / name), "sys_stats")

    def wait_stats(self, name, n=1):
        """Until a file is whole, and has so many samples."""
        def has_stats():
            with contextlib.suppress(OSError, ValueError, IndexError):
                return len(self.stats_of(name)) >= n
        self.daemon.until(has_stats, f"{n} samples in {name}")

    def test_record(self):
        self.perfetto(*self.config(BUFFERED + "duration_ms: 1000"), "-o", self.inside("plain"))
        self.assertGreaterEqual(len(self.stats_of("plain")), 2)

    def test_write_into_file(self):
        text = BUFFERED + "duration_ms: 1000 write_into_file: true file_write_period_ms: 200"
        self.perfetto(*self.config(text), "-o", self.inside("written"))
        self.assertGreaterEqual(len(self.stats_of("written")), 2)

    def test_large_trace(self):
        text = BUFFERED.replace("1024", "8192").replace("50", "10") + "duration_ms: 3000 "
        text += 'data_sources { config { name: "linux.process_stats" process_stats_config { ' \
                "scan_all_processes_on_start: true proc_stats_poll_ms: 100 } } }"
        self.perfetto(*self.config(text), "-o", self.inside("large"))
        self.assertGreaterEqual(len(self.stats_of("large")), 10)

    def test_refusal_is_reported(self):
        done = self.perfetto(*self.config("duration_ms: 100"), "-o", self.inside("refused"))
        self.assertIn("buffers", done.stderr)

    def test_query(self):
        out = self.perfetto("--query").stdout
        self.assertIn("Service: mmtrace", out)
        self.assertIn("linux.sys_stats", out)

    def test_detach_and_attach(self):
        text = BUFFERED + "duration_ms: 60000 write_into_file: true file_write_period_ms: 100"
        self.perfetto(*self.config(text), "-o", self.inside("detached"), "--detach=key")
        self.perfetto("--is_detached=key")
        self.perfetto("--is_detached=other", code=2)
        self.perfetto(*self.config(text), "-o", self.inside("other"), "--detach=key", code=1)
        self.wait_stats("detached", 5)
        self.perfetto("--attach=key", "--stop")
        self.assertGreaterEqual(len(self.stats_of("detached")), 5)
        self.perfetto("--is_detached=key", code=2)

    def test_background_clone_and_bugreport(self):
        text = BUFFERED + 'duration_ms: 60000 unique_session_name: "e2e" bugreport_score: 5'
        begin = time.monotonic()
        pid = int(self.perfetto(*self.config(text), "-o", self.inside("bg"),
                                "--background-wait").stdout)
        try:
            self.assertLess(time.monotonic() - begin, 50)
            self.assertIn("e2e", self.perfetto("--query").stdout)

            def has_samples():
                self.perfetto("--clone-by-name", "e2e", "-o", self.inside("clone"))
                return len(self.stats_of("clone")) >= 5
            self.daemon.until(has_samples, "5 samples in a clone")
            done = self.perfetto("--save-for-bugreport")
            path = self.root / re.search(r"into (\S+)", done.stderr)[1].lstrip("/")
            self.assertTrue(lib.of_kind(lib.decode(path), "sys_stats"))
            path.unlink()
            with self.daemon.connect() as old_client:
                old_client.sendall(invoke(1, SAVE_TRACE))
                saved = re.search(rb"/\S+/systrace.pftrace", old_client.recv(4096))[0].decode()
            self.assertTrue(lib.of_kind(lib.decode(saved), "sys_stats"))
            refused = self.perfetto(*self.config(text), "-o", self.inside("second"))
            self.assertIn("unique_session_name", refused.stderr)
        finally:
            os.kill(pid, signal.SIGTERM)
        self.daemon.until(lambda: (self.dir / "bg").stat().st_size > 0, "data in the trace")
        self.daemon.until(lambda: not pathlib.Path(f"/proc/{pid}").exists() or
                          pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z",
                          "the client does not end")
        self.assertGreater(len(self.stats_of("bg")), len(self.stats_of("clone")))

    def test_triggers(self):
        text = BUFFERED + """unique_session_name: "waits" trigger_config { trigger_mode: MODE
            trigger_timeout_ms: 120000
            triggers { name: "e2e_trigger" stop_delay_ms: 300 } }"""
        for mode in ("START_TRACING", "STOP_TRACING"):
            (self.dir / "armed").write_text(text.replace("MODE", mode))
            waiting = subprocess.Popen([*self.argv, "-c", self.inside("armed"), "--txt", "-o",
                                        self.inside(mode)],
                                       env=self.daemon.env, stderr=subprocess.DEVNULL)
            self.daemon.until(lambda: self.sessions("waits"), "the session")
            self.perfetto(*self.config('activate_triggers: "e2e_trigger"'))
            self.assertEqual(waiting.wait(60), 0)
            packets = lib.decode(self.dir / mode)
            self.assertEqual(
                [p.one("trigger", "trigger_name") for p in lib.of_kind(packets, "trigger")],
                ["e2e_trigger"])
            [came] = [p.one("timestamp") for p in lib.of_kind(packets, "trigger")]
            first = min(p.one("timestamp") for p in lib.of_kind(packets, "sys_stats"))
            self.assertEqual(first >= came, mode == "START_TRACING",
                             f"{mode}: {first}, trigger {came}")

    def test_snapshot_trigger(self):
        text = BUFFERED + """unique_session_name: "ring"
            trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 120000
            triggers { name: "e2e_snapshot" stop_delay_ms: 100 } }"""
        (self.dir / "armed").write_text(text)
        waiting = subprocess.Popen([*self.argv, "-c", self.inside("armed"), "--txt", "-o",
                                    self.inside("snapshot")],
                                   env=self.daemon.env, stderr=subprocess.DEVNULL)
        try:
            self.daemon.until(lambda: self.sessions("ring"), "the session")
            states.wait_for_reads(self.daemon.process.pid, 20)
            self.perfetto(*self.config('activate_triggers: "e2e_snapshot"'))
            self.wait_stats("snapshot.0", 2)
        finally:
            waiting.send_signal(signal.SIGTERM)
            waiting.wait(60)

    def test_a_killed_client_takes_its_session_along(self):
        done = self.perfetto(
            *self.config(BUFFERED + 'duration_ms: 60000 unique_session_name: "kept"'),
            "-o", self.inside("kept"), "--background-wait")
        self.addCleanup(os.kill, int(done.stdout), signal.SIGKILL)
        kept = self.sessions("kept")
        for how in (signal.SIGKILL, signal.SIGSTOP):
            (self.dir / "killed").write_text(
                BUFFERED + 'duration_ms: 60000 unique_session_name: "killed"\n')
            client = subprocess.Popen([*self.argv, "-c", self.inside("killed"), "--txt", "-o",
                                       self.inside("dead")],
                                      env=self.daemon.env, stderr=subprocess.DEVNULL)
            self.daemon.until(lambda: self.sessions("killed"), "the recording")
            client.send_signal(how)
            if how == signal.SIGSTOP:
                states.wait_for_state(client.pid, "T")
                states.wait_for_reads(self.daemon.process.pid, 5)
                self.assertTrue(self.sessions("killed"))
                client.kill()
            client.wait()
            self.daemon.until(lambda: not self.sessions("killed"), "the end of the session")
        self.assertEqual(self.sessions("kept"), kept)
        self.perfetto("--clone-by-name", "kept", "-o", self.inside("of_kept"))
        self.assertGreaterEqual(len(self.stats_of("of_kept")), 2)

    def test_a_stock_producer_connects_and_waits(self):
        program = "/usr/sbin/traced_probes"
        if not os.access(self.root / program[1:], os.X_OK):
            self.skipTest("needs traced_probes")
        with open(self.dir / "probes", "wb") as log:
            probes = subprocess.Popen([*self.argv[:-1], program], env=self.daemon.env, stdout=log,
                                      stderr=log)
        try:
            self.daemon.until(lambda: "Connected" in (self.dir / "probes").read_text(),
                              "the connection of traced_probes")
            self.perfetto(*self.config(BUFFERED + "duration_ms: 1000"), "-o", self.inside("beside"))
            self.assertGreaterEqual(len(self.stats_of("beside")), 2)
            self.assertIsNone(probes.poll())
            self.assertEqual((self.dir / "probes").read_text().count("Connected"), 1)
        finally:
            probes.terminate()
            probes.wait(60)

    def sessions(self, name):
        out = self.perfetto("--query").stdout
        return [line.split()[0] for line in out.splitlines() if line.split()[-1:] == [name]]

    def test_ten_at_once(self):
        errors = []

        def one(i):
            (self.dir / f"config{i}").write_text(BUFFERED + "duration_ms: 1500\n")
            done = lib.run(*self.argv, "-c", self.inside(f"config{i}"), "--txt", "-o",
                           self.inside(f"many{i}"),
                           env=self.daemon.env)
            if done.returncode or len(self.stats_of(f"many{i}")) < 2:
                errors.append(done.stderr)

        threads = [threading.Thread(target=one, args=(i,)) for i in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])


if __name__ == "__main__":
    unittest.main()
