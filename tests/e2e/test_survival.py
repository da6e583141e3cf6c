# SPDX-License-Identifier: Apache-2.0
"""The faults and promises that docs/daemon.md lists, a test for each.

Each daemon has folders and abstract sockets of its own.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import lib
from lib import wait_for
import states
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
EXT4_IOC_SHUTDOWN = 2 << 30 | 4 << 16 | ord("X") << 8 | 125
n_started = 0


def samples(trace):
    """The times of the samples in a trace, in order."""
    return [packet.one("timestamp") for packet in lib.of_kind(lib.decode(trace), "sys_stats")]


class Case(unittest.TestCase):
    def setUp(self):
        global n_started
        n_started += 1
        tmp = tempfile.TemporaryDirectory(dir="/var/tmp", prefix="mmtrace-survival-")
        self.addCleanup(tmp.cleanup)
        self.root = pathlib.Path(tmp.name)
        (self.root / "armed").mkdir()
        name = f"@mmtrace-survival-{os.getpid()}-{n_started}"
        self.sockets = {f"PERFETTO_{kind}_SOCK_NAME": f"{name}-{kind}"
                        for kind in ("CONSUMER", "PRODUCER")}
        self.env = {**os.environ, **self.sockets}

    def arm(self, name, text):
        (self.root / "armed" / f"{name}.cfg").write_text(text)

    def daemon(self, *options):
        """A context with a running daemon, which answers."""
        @contextlib.contextmanager
        def running():
            with test_daemon.running(self.root, "--kmem-events", "none", *options, env=self.sockets,
                                     ipc=True) as daemon:
                daemon.wait(lambda: self.command("status").returncode == 0)
                yield daemon
        return running()

    def command(self, *arguments):
        return lib.run(lib.MMTRACE, *arguments, env=self.env)

    def client(self, argv, **options):
        """Starts a client that records. If it still lives at the end of the test, it is killed."""
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
        return self.client([lib.MMTRACE, "record", "-c", config, "-o", self.root / out, *options],
                           **popen)

    def sessions(self, *activities):
        """The sessions of `mmtrace status`; with `activities`, only sessions with one of these."""
        done = self.command("status", "--json")
        told = json.loads(done.stdout)["sessions"] if done.returncode == 0 else []
        return [session for session in told if not activities or session["activity"] in activities]

    def wait_recording(self, n=1, n_events=10):
        """Waits until n sessions record, and each has recorded `n_events` events. A sample is an
        event."""
        wait_for(lambda: [s["events"] >= n_events for s in self.sessions("recording")] == [True]
                 * n,
                 lambda: f"{n} sessions with {n_events} events: {self.sessions()}")


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
        text = COUNTERS.replace("1024", "65536").replace(
            "meminfo_period_ms: 50", "meminfo_period_ms: 5 vmstat_period_ms: 5")
        events = (
            'data_sources { config { name: "linux.ftrace" ftrace_config { ftrace_events: '
            '"sched/sched_switch" } } }\n')
        with self.daemon() as daemon:
            client = self.record("large.pftrace", text + events)
            self.wait_recording(n_events=2000)
            self.assertEqual(daemon.end(), 0)
            _, stderr = client.communicate(timeout=20)
            self.assertEqual(client.returncode, 0, stderr)
        packets = lib.decode(self.root / "large.pftrace")
        n_events = sum(len(bundle.all("ftrace_events", "compact_sched", "switch_timestamp"))
                       for bundle in lib.of_kind(packets, "ftrace_events"))
        self.assertGreaterEqual(n_events + len(lib.of_kind(packets, "sys_stats")), 2000)
        self.assertEqual(sum("tracing_disabled" in packet.one("service_event")
                             for packet in lib.of_kind(packets, "service_event")), 1)

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
            wait_for(lambda: self.sessions("done"), "a session that is done")
            late = self.record("late.pftrace", COUNTERS)
            _, stderr = late.communicate(timeout=20)
            self.assertEqual(late.returncode, 1)
            self.assertIn("the tracing service ends", stderr)

    @unittest.skipUnless(test_ipc.find_perfetto(),
                         "needs Perfetto's client, in PATH or below PERFETTO_ROOT")
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
            self.assertRegex(stderr,
                             r"kept.pftrace: the tracing service died; the \d+ bytes .* are a "
                             r"readable trace")
        self.assertGreater(len(samples(self.root / "kept.pftrace")), 3)
        database = self.root / "kept.db"
        self.assertEqual(lib.run(lib.MMSQL, "convert", self.root / "kept.pftrace", "-o",
                                 database).returncode, 0)
        asked = lib.run(lib.MMSQL, "query", database,
                        "SELECT value FROM stats WHERE name = 'mmsql_recording_cut'")
        self.assertIn("1", asked.stdout)


@lib.needs_root
class ClientKilled(Case):
    """A recording in memory ends with its client; a recording into a file ends and is written."""

    def killed(self, text, *options):
        with self.daemon():
            client = self.record("of_client.pftrace", text, *options)
            self.wait_recording()
            client.kill()
            client.wait()
            wait_for(lambda: not self.sessions(), "the end of the session")

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
            done = self.record("detached.pftrace", INTO_FILE + "duration_ms: 2000\n",
                               "--detach=key")
            _, stderr = done.communicate(timeout=20)
            self.assertEqual(done.returncode, 0, stderr)
            self.wait_recording(n_events=1)
            wait_for(lambda: not self.sessions(), "the end of the session")
        times = samples(self.root / "detached.pftrace")
        self.assertGreater((times[-1] - times[0]) / 1e9, 1.2)


class Armed(Case):
    """A config without write_into_file, kept armed; a trigger begins a recording, and a fault
    happens meanwhile."""

    def setUp(self):
        super().setUp()
        self.traces = self.root / "state" / "traces"

    def start(self, *options):
        """Starts a daemon, which ends with the test at the latest."""
        daemon = test_daemon.Daemon(self.root, "--kmem-events", "none", *options, env=self.sockets,
                                    ipc=True)
        self.addCleanup(daemon.end, signal.SIGKILL)
        daemon.wait(lambda: "armed/one.cfg: armed" in daemon.said()
                    and self.command("status").returncode == 0)
        return daemon

    def trigger(self):
        done = self.command("trigger", "now")
        self.assertEqual(done.returncode, 0, done.stderr)

    def parts(self):
        return sorted(self.traces.glob("*.part")) if self.traces.is_dir() else []

    def finished(self):
        return sorted(self.traces.glob("*.pftrace")) if self.traces.is_dir() else []

    def record_part(self, text=TRIGGERED % 60000):
        """Starts a daemon, and waits until its part has more than 20 samples of about 230 bytes
        each."""
        self.arm("one", text)
        daemon = self.start()
        self.trigger()
        wait_for(lambda: [part for part in self.parts() if part.stat().st_size > 9000], daemon.said)
        return daemon

    def recover(self, daemon, *options):
        """Starts another daemon. Returns the trace that it recovers."""
        log_size = len(daemon.said())
        with self.daemon(*options) as daemon:
            said = daemon.wait(lambda: "recovered " in daemon.said()[log_size:]
                               and daemon.said()[log_size:])
            self.assertEqual(self.parts(), [])
            [trace] = self.finished()
            self.assertIn(f"recovered {trace}: ", said)
        [cut] = lib.of_kind(lib.decode(trace), "recording_cut")
        self.assertIsNotNone(cut)
        return trace


@lib.needs_root
class ArmedAndKilled(Armed):
    def test_kill(self):
        daemon = self.record_part()
        killed = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        daemon.end(signal.SIGKILL)
        self.assertEqual(self.finished(), [])
        times = samples(self.recover(daemon))
        self.assertGreater(len(times), 20)
        # The journal is written each second.
        self.assertLess((killed - times[-1]) / 1e9, 3)

    def test_parent_does_not_reap(self):
        daemon = self.record_part()
        daemon.process.send_signal(signal.SIGKILL)
        wait_for(lambda: pathlib.Path(f"/proc/{daemon.pid}/stat").read_text().rsplit(")", 1)[
            1].split()[0] == "Z",
                 "a daemon that is a zombie")
        self.assertGreater(len(samples(self.recover(daemon))), 20)

    def test_file_that_is_torn(self):
        daemon = self.record_part()
        daemon.end(signal.SIGKILL)
        [part] = self.parts()
        whole = part.read_bytes()
        ends = [0]
        for frame in lib.frames(whole):
            ends.append(whole.index(frame, ends[-1]) + len(frame))
        # The middle of a packet, and the zeros that a file system may leave behind it.
        part.write_bytes(whole[:ends[-2] + 5] + bytes(3000))
        trace = self.recover(daemon)
        self.assertEqual(trace.read_bytes()[:ends[-2]], whole[:ends[-2]])
        [cut] = [packet.one("recording_cut")
                 for packet in lib.of_kind(lib.decode(trace), "recording_cut")]
        self.assertEqual(cut.one("cut_bytes"), 3005)
        self.assertLess(abs(cut.one("found_realtime_ns") / 1e9 - time.time()), 60)

    def test_part_of_a_living_daemon_is_left_alone(self):
        """Another daemon recovers a part that no daemon writes, and leaves the living daemon's part
        alone."""
        self.record_part()
        [living] = self.parts()
        orphan = self.traces / "one-20260101T000000Z.pftrace.part"
        shutil.copy(living, orphan)
        other = self.root / "other"
        (other / "armed").mkdir(parents=True)
        options = ["--no-ipc", "--kmem-events", "none", "--armed", other / "armed", "--state-dir",
                   other / "state",
                   "--run-dir", other / "run", "--output-dir", self.traces]
        with open(other / "log", "w") as log:
            second = subprocess.Popen([str(arg) for arg in (lib.MMTRACE, "daemon", *options)],
                                      stderr=log)
        self.addCleanup(second.wait)
        self.addCleanup(second.kill)
        wait_for(lambda: f"recovered {orphan.with_suffix('')}: " in (other / "log").read_text(),
                 "the orphan")
        second.terminate()
        self.assertEqual(second.wait(20), 0)
        self.assertEqual((other / "log").read_text().count("recovered"), 1)
        self.assertEqual(self.parts(), [living])

    def test_files_of_others_are_left_alone(self):
        self.traces.mkdir(parents=True)
        target = self.root / "target"
        target.write_bytes(b"not a trace")
        (self.traces / "one-20260101T000000Z.pftrace.part").symlink_to(target)
        (self.traces / "notes.pftrace.part").write_bytes(b"notes")
        (self.traces / "two-20260101T000000Z.pftrace.part").write_bytes(b"")
        # A second name of a file, a pipe, a device, a file of another user, and a hidden file of a
        # user.
        linked = self.root / "linked"
        linked.write_bytes(b"not a trace either")
        os.link(linked, self.traces / "linked-20260101T000000Z.pftrace.part")
        os.mkfifo(self.traces / "pipe-20260101T000000Z.pftrace.part")
        os.mknod(self.traces / "device-20260101T000000Z.pftrace.part", stat.S_IFCHR | 0o600,
                 os.makedev(1, 3))
        (self.traces / "other-20260101T000000Z.pftrace.part").write_bytes(b"another user's")
        os.chown(self.traces / "other-20260101T000000Z.pftrace.part", 65534, 65534)
        (self.traces / ".download.part").write_bytes(b"hidden")
        # A daemon that dies while it replaces a part leaves this file.
        (self.traces / ".one-1234.pftrace.part").write_bytes(b"")
        self.arm("one", TRIGGERED % 1000)
        self.start().end()
        self.assertEqual(target.read_bytes(), b"not a trace")
        self.assertEqual(linked.read_bytes(), b"not a trace either")
        names = {path.name.removesuffix("-20260101T000000Z.pftrace.part")
                 for path in self.traces.iterdir()}
        self.assertEqual(names, {"notes.pftrace.part", "one", "linked", "pipe", "device", "other",
                                 ".download.part"})

    def test_into_a_file(self):
        daemon = self.record_part((TRIGGERED % 60000)
                                  + "write_into_file: true file_write_period_ms: 200\n")
        daemon.end(signal.SIGKILL)
        self.assertGreater(len(samples(self.recover(daemon))), 20)

    def test_out_of_memory(self):
        daemon = self.record_part()
        out_of_memory(self, daemon)
        self.assertEqual(daemon.process.wait(30), -signal.SIGKILL)
        self.assertGreater(len(samples(self.recover(daemon))), 20)


@lib.needs_root
class ArmedAndEnded(Armed):
    def test_sigterm(self):
        daemon = self.record_part()
        self.assertEqual(daemon.end(), 0)
        self.assertEqual(self.parts(), [])
        [trace] = self.finished()
        self.assertIn(f"armed/one.cfg: wrote {trace}", daemon.said())
        self.assertEqual(lib.of_kind(lib.decode(trace), "recording_cut"), [])
        self.assertGreater(len(samples(trace)), 20)

    def test_source_that_is_left_out(self):
        """The log names the config, status shows the reason, and the rest is recorded."""
        why = "linux.perf_map is not recorded: period_ms is less than 10"
        text = (TRIGGERED
                % 60000 + 'data_sources { config { name: "linux.perf_map" perf_map_config '
                          '{ period_ms: 1 } } }')
        daemon = self.record_part(text)
        self.assertIn(f"armed/one.cfg: {why}\n", daemon.said())
        self.assertIn(f": {why}\n", self.command("status").stdout)
        self.assertEqual(daemon.end(), 0)
        [trace] = self.finished()
        self.assertGreater(len(samples(trace)), 20)

    def test_snapshot_takes_the_buffer_along(self):
        """A snapshot may leave an empty buffer: the file then has the data that was recorded after
        the snapshot."""
        for name in ("transfer_on_clone", "clear_before_clone"):
            with self.subTest(name):
                shutil.rmtree(self.traces, ignore_errors=True)
                daemon = self.record_part('unique_session_name: "named"\n' +
                                          (TRIGGERED % 60000).replace(
                                              "size_kb: 1024", f"size_kb: 1024 {name}: true"))
                cloned = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                done = self.command("clone", "named", "-o", self.root / "snapshot.pftrace")
                self.assertEqual(done.returncode, 0, done.stderr)
                states.wait_for_reads(daemon.pid, 100)
                self.assertEqual(daemon.end(), 0)
                [trace] = self.finished()
                times = samples(trace)
                self.assertGreater(len(times), 20)
                self.assertGreaterEqual(times[0], cloned)
                (self.root / "snapshot.pftrace").unlink()

    def test_wrote_means_on_the_disk(self):
        if not shutil.which("strace") or lib.run("strace", "-V").returncode != 0:
            self.skipTest("needs strace, which scripts/install-deps installs")
        self.arm("one", TRIGGERED % 500)
        daemon = self.start()
        calls = self.root / "calls"
        strace = subprocess.Popen(["strace", "-f", "-p", str(daemon.pid), "-o", calls, "-e",
                                   "trace=fsync,fdatasync,rename,renameat2,write", "-s", "200"],
                                  stderr=subprocess.PIPE)
        self.addCleanup(strace.communicate)
        strace.stderr.readline()  # attached
        self.trigger()
        daemon.wait(lambda: "wrote " in daemon.said())
        daemon.end()
        strace.wait(20)
        lines = calls.read_text().splitlines()
        [renamed] = [i for i, line in enumerate(lines) if "rename" in line and ".part" in line]
        [told] = [i for i, line in enumerate(lines) if "write(2" in line and "wrote " in line]
        self.assertTrue(any("fsync(" in line for line in lines[:renamed]), lines)
        self.assertTrue(any("fsync(" in line for line in lines[renamed:told]), lines)

    def test_nothing_is_written_before_the_trigger(self):
        for mode in ("START_TRACING", "STOP_TRACING", "CLONE_SNAPSHOT"):
            self.arm(mode, (TRIGGERED % 300).replace("START_TRACING", mode))
        self.arm("one", TRIGGERED % 300)
        daemon = self.start()
        daemon.wait(lambda: daemon.said().count(".cfg: armed") == 4)
        # The part of a recording is written each second, and each second has 20 samples.
        wait_for(lambda: sum(session["events"] > 50 for session in self.sessions()) == 2,
                 self.sessions)
        self.assertEqual(self.parts() + self.finished(), [])
        self.trigger()
        daemon.wait(lambda: daemon.said().count(": wrote ") == 4)
        self.assertEqual(self.parts(), [])
        self.assertEqual(len(self.finished()), 4)

    def test_ring(self):
        """The part is bounded while the ring records; the finished trace has the contents of the
        ring."""
        text = (TRIGGERED % 9000).replace("size_kb: 1024", "size_kb: 64 fill_policy: RING_BUFFER")
        self.arm("one",
                 text.replace("meminfo_period_ms: 50", "meminfo_period_ms: 1 vmstat_period_ms: 1"))
        daemon = self.start()
        self.trigger()
        largest = 0
        while "wrote " not in daemon.said():
            for path in self.parts():
                with contextlib.suppress(FileNotFoundError):  # renamed since the folder was read
                    largest = max(largest, path.stat().st_size)
            time.sleep(0.05)
        [trace] = self.finished()
        self.assertGreater(largest, 100 << 10)
        self.assertLess(largest, 2 << 20)
        self.assertLess(trace.stat().st_size, 90 << 10)
        self.assertGreater(len(samples(trace)), 10)

    def test_snapshot_that_was_ordered(self):
        """SIGTERM does not wait for the rest of the snapshot's delay."""
        self.arm("one", (TRIGGERED % 3600000).replace("START_TRACING", "CLONE_SNAPSHOT"))
        daemon = self.start()
        wait_for(lambda: [session["events"] > 10 for session in self.sessions()] == [True],
                 self.sessions)
        self.trigger()
        self.assertEqual(daemon.end(), 0)
        [trace] = self.finished()
        self.assertIn(f"wrote {trace}", daemon.said())
        self.assertGreater(len(samples(trace)), 5)


@lib.needs_root
class RecordAlone(Case):
    """Recordings without a daemon; test_record.py has those into a file
    (test_kill_leaves_a_readable_prefix)."""

    def test_kill_in_memory(self):
        client = self.record("lost.pftrace", COUNTERS, "--no-daemon")
        states.wait_for_recorder(client.pid)
        states.wait_for_reads(client.pid, 20)
        client.kill()
        client.wait()
        self.assertEqual((self.root / "lost.pftrace").stat().st_size, 0)

    def test_full_disk(self):
        small = self.root / "small"
        small.mkdir()
        mount(self, "-t", "tmpfs", "-o", "size=64k", "tmpfs", small)
        text = COUNTERS.replace("meminfo_period_ms: 50", "meminfo_period_ms: 2 vmstat_period_ms: 2")
        for through in ("--no-daemon", None):
            out = small / f"out{through}.pftrace"
            with self.daemon() if not through else contextlib.nullcontext():
                client = self.record("config", text + "duration_ms: 1500\n", "-o", out,
                                     *([through] if through else []))
                _, stderr = client.communicate(timeout=30)
            self.assertEqual(client.returncode, 1)
            self.assertIn(f"{out}: No space left on device", stderr)
            self.assertGreater(len(samples(out)), 5)
            out.unlink()


@lib.needs_root
class Reset(Armed):
    def test_power_is_lost(self):
        """A file system that loses all data that was not synced."""
        if not shutil.which("mkfs.ext4"):
            self.skipTest("needs mkfs.ext4, which scripts/install-deps installs (e2fsprogs)")
        image, self.traces = self.root / "image", self.root / "mount"
        self.traces.mkdir()
        with open(image, "wb") as file:
            file.truncate(32 << 20)
        lib.run("mkfs.ext4", "-q", "-F", image)
        mount(self, "-o", "loop", image, self.traces)
        self.arm("one", TRIGGERED % 60000)
        daemon = self.start("--output-dir", self.traces)
        self.trigger()
        time.sleep(7.5)  # the second sync comes after five seconds
        folder = os.open(self.traces, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", 2))  # without flushing the log
        finally:
            os.close(folder)
        daemon.end(signal.SIGKILL)
        # The daemon's helpers end a little later, and hold the folder until then.
        wait_for(lambda: lib.run("umount", self.traces).returncode == 0, "the file system is free")
        # Mount namespaces of other tests may still hold the dead file system.
        shutil.copy(image, self.root / "after")
        mount(self, "-o", "loop", self.root / "after", self.traces)
        [part] = self.parts()
        with self.daemon("--output-dir", self.traces) as daemon:
            daemon.wait(lambda: "recovered " in daemon.said())
            [trace] = self.finished()
            times = samples(trace)
        lib.run("umount", self.traces)
        self.assertGreater((times[-1] - times[0]) / 1e9, 4)


@lib.needs_root
class NoRoom(Armed):
    FAST = (TRIGGERED % 1500).replace("meminfo_period_ms: 50",
                                      "meminfo_period_ms: 5 vmstat_period_ms: 5")

    def setUp(self):
        super().setUp()
        self.traces = self.root / "small"
        self.traces.mkdir()

    def fill(self, left_kb=0):
        """Fills the disk but for left_kb."""
        filler = self.traces / "filler"
        free = os.statvfs(self.traces)
        with open(filler, "wb") as file:
            with contextlib.suppress(OSError):
                file.write(bytes(max(0, free.f_bavail * free.f_frsize - left_kb * 1024)))
        return filler

    def old_traces(self, n, size_kb):
        for day in range(1, n + 1):
            path = self.traces / f"one-2020010{day}T000000Z.pftrace"
            path.write_bytes(bytes(size_kb * 1024))
            os.utime(path, (day * 86400, day * 86400))

    def start_small(self, size, **replaced):
        mount(self, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.traces)
        self.arm("one", self.FAST)

    def test_oldest_traces_go_first(self):
        self.start_small("1200k")
        self.old_traces(3, 128)
        (self.traces / "theirs-20190101T000000Z.pftrace").write_bytes(bytes(1024))
        os.link(self.traces / "one-20200101T000000Z.pftrace", self.traces / "second_name")
        self.fill(left_kb=96)  # a third of the recording: a busy machine makes it smaller
        daemon = self.start("--output-dir", self.traces)
        self.trigger()
        daemon.wait(lambda: "wrote " in daemon.said() or "stay in memory" in daemon.said())
        self.assertIn(f"removed {self.traces}/one-20200102T000000Z.pftrace, the oldest trace",
                      daemon.said())
        left = {path.name for path in self.traces.iterdir()}
        self.assertIn("theirs-20190101T000000Z.pftrace", left)
        self.assertIn("one-20200101T000000Z.pftrace", left)  # its removal would free nothing

    def test_newest_stays_in_memory(self):
        self.start_small("1m")
        filler = self.fill()
        daemon = self.start("--output-dir", self.traces)
        self.trigger()
        said = daemon.wait(lambda: "stay in memory" in daemon.said() and daemon.said())
        self.assertRegex(said,
                         rf"armed/one.cfg: {self.traces}/one-\d+T\d+Z.pftrace.part: No space left "
                         r"on device: \d+ bytes more .*make room there")
        # The config is armed again. A second recording waits, too, and the first recording is given
        # up for the second.
        daemon.wait(lambda: self.sessions("armed"))
        self.trigger()
        daemon.wait(lambda: "an older recording is lost" in daemon.said(), 60)
        [rss_kb] = daemon.status("VmRSS")
        if not lib.is_sanitized():
            self.assertLess(rss_kb, 12 << 10)
        filler.unlink()
        daemon.wait(lambda: ": wrote " in daemon.said().rpartition("older recording is lost")[2],
                    60)
        self.assertGreater(len(samples(self.finished()[-1])), 100)
        self.assertEqual(daemon.end(), 0)

    def test_end_without_room(self):
        self.start_small("128k")
        self.fill(left_kb=64)  # a busy machine makes the recording smaller
        daemon = self.start("--output-dir", self.traces)
        self.trigger()
        daemon.wait(lambda: "stay in memory" in daemon.said())
        began = time.monotonic()
        self.assertEqual(daemon.end(), 0)
        self.assertLess(time.monotonic() - began, 10)
        self.assertIn("the next start of the daemon completes their files", daemon.said())
        self.assertGreater(len(samples(self.recover(daemon, "--output-dir", self.traces))), 5)

    def test_read_only(self):
        self.start_small("2m")
        lib.run("mount", "-o", "remount,ro", self.traces)
        daemon = self.start("--output-dir", self.traces)
        self.assertIn(f"recordings stay in memory for now: {self.traces}: Read-only file system",
                      daemon.said())
        self.trigger()
        daemon.wait(lambda: "is written later" in daemon.said())
        lib.run("mount", "-o", "remount,rw", self.traces)
        daemon.wait(lambda: ": wrote " in daemon.said(), 60)
        self.assertGreater(len(samples(self.finished()[-1])), 50)

    def test_folder_is_gone(self):
        self.arm("one", self.FAST)
        daemon = self.start("--output-dir", self.traces)
        shutil.rmtree(self.traces)
        self.trigger()
        daemon.wait(lambda: ": wrote " in daemon.said(), 60)
        self.assertGreater(len(samples(self.finished()[-1])), 100)

    def test_file_size_limit(self):
        self.arm("one", self.FAST)
        daemon = self.start("--output-dir", self.traces)
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))
        self.trigger()
        daemon.wait(lambda: "File too large" in daemon.said() and "stay in memory" in daemon.said())
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE,
                         (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        daemon.wait(lambda: ": wrote " in daemon.said(), 60)
        self.assertGreater(len(samples(self.finished()[-1])), 100)


def mount(test, *arguments):
    """Mounts, and unmounts at the end of the test."""
    done = lib.run("mount", *arguments)
    if done.returncode != 0:
        test.skipTest(f"cannot mount: {done.stderr.strip()}")
    test.addCleanup(lib.run, "umount", "-l", arguments[-1])


def memory_cgroup(test):
    """A new memory cgroup of either version, and the file of its limit. The cgroup ends with the
    test."""
    for base, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                        ("/sys/fs/cgroup", "memory.max")):
        path = pathlib.Path(base, f"mmtrace-test-{os.getpid()}")
        try:
            path.mkdir()
        except OSError:
            continue
        test.addCleanup(lambda: wait_for(lambda: remove_folder(path), "the end of the cgroup"))
        if (path / limit).exists():
            return path, path / limit
    return test.skipTest(
        "needs root and a memory cgroup that can be made: v1, or v2 with its memory controller")


def remove_folder(path):
    with contextlib.suppress(OSError):
        path.rmdir()
    return not path.exists()


def out_of_memory(test, daemon):
    """Lets the kernel kill the daemon. The daemon shares a limit with a process that takes more and
    more memory."""
    path, limit = memory_cgroup(test)
    pathlib.Path(f"/proc/{daemon.pid}/oom_score_adj").write_text("1000")
    (path / "cgroup.procs").write_text(str(daemon.pid))
    limit.write_text(str(40 << 20))
    # Pages of a file in memory belong to no process, so that only the score counts.
    code = ("import os, sys\n"
            f"open('{path}/cgroup.procs', 'w').write(str(os.getpid()))\n"
            "fd = os.memfd_create('taken')\n"
            "while sys.stdin.readline(): os.write(fd, bytes(1 << 20))")
    # Without a buffer: the kernel may end this process, too, and a line that is left would fail at
    # the close.
    with lib.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, bufsize=0) as hog:
        with contextlib.suppress(BrokenPipeError):
            for _ in range(60):
                if daemon.process.poll() is not None:
                    break
                hog.stdin.write(b"\n")
                time.sleep(0.02)
        wait_for(lambda: daemon.process.poll() is not None, "the end of the daemon")
        hog.kill()


if __name__ == "__main__":
    unittest.main()
