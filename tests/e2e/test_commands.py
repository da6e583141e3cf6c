# SPDX-License-Identifier: Apache-2.0
"""The commands that speak Perfetto's IPC: without a service, with mmtrace daemon, and with
traced."""
import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import zipfile

import lib
import peers
import states

NO_SESSION = 2
VMSTAT = """
buffers { size_kb: 1024 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { vmstat_period_ms: 100 } } }
"""
TRACE_ENTRY = "FS/data/misc/perfetto-traces/bugreport/systrace.pftrace"


# The second of the two data sources cannot be opened: its period is too short.
LEFT_OUT = VMSTAT + """
data_sources { config { name: "linux.perf_map" perf_map_config { period_ms: 1 } } }
"""
WHY = r"linux\.perf_map is not recorded: period_ms is less than \d+"


def trigger_config(mode, name, stop_delay_ms, timeout_ms=120000):
    return f"""{VMSTAT}
trigger_config {{
  trigger_mode: {mode}
  trigger_timeout_ms: {timeout_ms}
  triggers {{ name: "{name}" stop_delay_ms: {stop_delay_ms} }}
}}
"""


class Commands(unittest.TestCase):
    """A folder, an environment, and shorthands."""

    env = None

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-test-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def run_command(self, *argv, **options):
        options.setdefault("env", self.env)
        options.setdefault("cwd", self.dir)
        return lib.run(lib.MMTRACE, *argv, **options)

    def succeed(self, *argv, **options):
        done = self.run_command(*argv, **options)
        self.assertEqual(done.returncode, 0, f"{argv}: {done.stderr}")
        return done

    def fail_with(self, code, pattern, *argv):
        done = self.run_command(*argv)
        self.assertEqual(done.returncode, code, f"{argv}: {done.stderr}")
        self.assertRegex(done.stderr, pattern)
        return done

    def config(self, text, name="config"):
        path = self.dir / name
        path.write_text(text)
        return path

    def spawn(self, *argv):
        child = subprocess.Popen([str(a) for a in (lib.MMTRACE, *argv)], env=self.env, cwd=self.dir,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, child)
        return child

    @staticmethod
    def end(child):
        if child.poll() is None:
            child.kill()
        child.communicate()

    def vmstats(self, path):
        return lib.of_kind(lib.decode(self.dir / path), "sys_stats")

    def n_vmstats(self, path):
        """The number of samples of vmstat; 0 if the file is not whole yet."""
        try:
            return len(self.vmstats(path))
        except (OSError, ValueError, IndexError):
            return 0

    def background(self, *argv):
        """The pid of a recording that goes on."""
        pid = int(self.succeed("record", *argv).stdout)
        self.addCleanup(self.kill, pid)
        return pid

    @staticmethod
    def kill(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    @staticmethod
    def is_alive(pid):
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return False
        return state != "Z"

    def stop_background(self, pid):
        os.kill(pid, signal.SIGTERM)
        lib.wait_for(lambda: not self.is_alive(pid), "the end of the recording")


class WithoutService(Commands):
    def setUp(self):
        super().setUp()
        self.env = dict(os.environ, PERFETTO_CONSUMER_SOCK_NAME=str(self.dir / "no-consumer"),
                        PERFETTO_PRODUCER_SOCK_NAME=str(self.dir / "no-producer"))

    def test_what_needs_a_service_says_so(self):
        text = "no tracing service answers at .*no-consumer .start one with mmtrace daemon"
        self.fail_with(1, text, "status")
        self.fail_with(1, text, "status", "--json")
        self.fail_with(1, text, "clone", "x", "-o", "x.pftrace")
        self.fail_with(1, text, "record", "--is_detached=x")
        self.fail_with(1, text, "record", "--attach=x", "--stop")
        self.fail_with(1, "answers at .*no-producer", "trigger", "x")
        self.config(VMSTAT + "write_into_file: true")
        self.fail_with(1, text, "record", "-c", "config", "-o", "x.pftrace", "--detach=x")
        self.assertFalse((self.dir / "x.pftrace").exists())

    def test_wrong_usage(self):
        self.config(VMSTAT)
        for pattern, *argv in (
            ("no trigger named", "trigger"),
            ("no session named", "clone", "-o", "x"),
            ("no output file", "clone", "x"),
            ("more than one session", "clone", "x", "7", "-o", "x"),
            ("no output file", "bugreport"),
            ("takes no arguments", "bugreport", "-o", "x", "y"),
            ("takes no arguments", "status", "x"),
            ("--stop goes with --attach", "record", "-c", "config", "-o", "x", "--stop"),
            ("does not go with --background", "record", "-c", "config", "-d", "--detach=x"),
            ("no standard output", "record", "-c", "config", "-o", "-", "-d"),
            ("take no config", "record", "-c", "config", "--attach=x"),
            ("not the number", "record", "--clone", "x", "-o", "x"),
            ("not an open file", "record", "-c", "config", "-o", "x", "--notify-fd", "77"),
        ):
            with self.subTest(argv=argv):
                self.fail_with(2, pattern, *argv)

    def test_background(self):
        self.config(VMSTAT)
        pid = self.background("-c", "config", "-o", "trace", "-t", "60s", "--background")
        self.assertTrue(self.is_alive(pid))
        self.assertNotEqual(os.getsid(pid), os.getsid(0))
        states.wait_for_recorder(pid, 8)  # a sample is one or two reads
        self.stop_background(pid)
        self.assertGreater(len(self.vmstats("trace")), 1)

    def test_background_wait_returns_when_it_records(self):
        self.config(VMSTAT + "write_into_file: true file_write_period_ms: 100")
        pid = self.background("-c", "config", "-o", "trace", "-t", "60s", "-D")
        lib.wait_for(lambda: (self.dir / "trace").stat().st_size > 0, "data in the trace")
        self.stop_background(pid)
        self.assertGreater(len(self.vmstats("trace")), 0)

    def test_background_wait_fails_without_a_source(self):
        """The parent says what is missing; the recording goes on."""
        self.config(LEFT_OUT)
        done = self.fail_with(1, f"^mmtrace: {WHY}$", "record", "-c", "config", "-o", "trace", "-t",
                              "60s", "-D")
        pid = int(done.stdout)
        self.addCleanup(self.kill, pid)
        states.wait_for_recorder(pid, 8)
        os.kill(pid, signal.SIGTERM)
        lib.wait_for(lambda: self.n_vmstats("trace") > 0, "the trace")

    def test_background_fails_visibly(self):
        self.config(VMSTAT)
        for flag in ("-d", "-D"):
            done = self.fail_with(1, "none/trace", "record", "-c", "config", "-o", "none/trace",
                                  flag)
            self.assertRegex(done.stdout, r"^\d+\n$")
        self.fail_with(1, "config is empty", "record", "-c", "/dev/null", "-o", "trace", "-d")

    def test_notify_fd(self):
        self.config(VMSTAT)
        reader, writer = os.pipe()
        child = subprocess.Popen([lib.MMTRACE, "record", "-q", "-c", "config", "-o", "trace", "-t",
                                  "60s", "--notify-fd", str(writer)], pass_fds=[writer],
                                 env=self.env, cwd=self.dir)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            self.assertEqual(pipe.read(), b"\0")
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(60), 0)

    def test_bugreport(self):
        done = self.succeed("bugreport", "-o", "report.zip")
        report = zipfile.ZipFile(self.dir / "report.zip")
        self.assertIsNone(report.testzip())
        self.assertIn(b"nr_free_pages", report.read("FS/proc/vmstat"))
        self.assertIn(b"MemTotal", report.read("FS/proc/meminfo"))
        self.assertEqual(report.read("FS/proc/version"), pathlib.Path("/proc/version").read_bytes())
        index = report.read("index.txt").decode()
        self.assertRegex(index, "No snapshot: no tracing service answers at .*no-consumer")
        for name in report.namelist()[:-1]:
            self.assertRegex(index, fr"(?m)^ *{report.getinfo(name).file_size}  {re.escape(name)}$")
        self.assertEqual((self.dir / "report.zip").stat().st_mode & 0o777, 0o600)
        self.assertEqual([p.name for p in self.dir.iterdir()], ["report.zip"])
        self.assertRegex(done.stderr, r"report.zip: \d+ bytes")

    def test_bugreport_to_a_pipe(self):
        done = self.succeed("bugreport", "-o", "-", text=False)
        report = zipfile.ZipFile(io.BytesIO(done.stdout))
        self.assertIsNone(report.testzip())
        self.assertIn("index.txt", report.namelist())

    def test_bugreport_replaces_files_only(self):
        self.fail_with(1, "not a regular file", "bugreport", "-o", "/dev/null")
        self.fail_with(1, "none/x.zip", "bugreport", "-o", "none/x.zip")

    @lib.needs_root
    def test_bugreport_has_the_kernel_log(self):
        mark = f"mmtrace test {os.getpid()} {time.monotonic_ns()}"
        pathlib.Path("/dev/kmsg").write_text(f"{mark}\n")
        self.succeed("bugreport", "-o", "report.zip")
        log = zipfile.ZipFile(self.dir / "report.zip").read("kernel.log").decode(errors="replace")
        self.assertRegex(log, fr"(?m)^<\d>\[ *\d+\.\d{{6}}\] {mark}$")


class ServiceTests:
    """Everything that any service does for the commands. The subclass has `make_service`."""

    @classmethod
    def setUpClass(cls):
        cls.service = cls.make_service()
        cls.service.__enter__()
        cls.addClassCleanup(cls.service.__exit__)
        cls.env = cls.service.env

    def status(self):
        return json.loads(self.succeed("status", "--json").stdout)

    def sessions(self):
        return self.status()["sessions"]

    def named(self, name):
        return [s for s in self.sessions() if s.get("name") == name]

    def record_named(self, name, more="", seconds=60):
        """Starts a recording in the background whose session has a name, and waits until it
        records."""
        self.config(f'{VMSTAT} unique_session_name: "{name}" {more}')
        pid = self.background("-c", "config", "-o", f"{name}.pftrace", "-t", f"{seconds}s", "-D")
        self.assertEqual(len(self.named(name)), 1)
        self.wait_sampled(name)
        return pid

    def wait_sampled(self, session):
        """Waits until the session has some samples, as a snapshot shows."""
        def has_samples():
            self.succeed("clone", session, "-o", "sampled")
            return self.n_vmstats("sampled") > 2
        lib.wait_for(has_samples, f"samples of {session}")
        (self.dir / "sampled").unlink()

    def assert_no_sessions(self):
        lib.wait_for(lambda: not self.sessions(), f"sessions stay: {self.sessions()}")

    def setUp(self):
        super().setUp()
        self.addCleanup(self.assert_no_sessions)  # after the cleanups of the test

    def test_status(self):
        self.addCleanup(self.stop_background, self.record_named("seen", "bugreport_score: 3"))
        status = self.status()
        self.assertIn("linux.sys_stats", status["data_sources"])
        self.assertGreater(status["resident_bytes"], 0)
        session, = self.named("seen")
        self.assertTrue(session["is_started"])
        self.assertEqual(session["buffer_bytes"], 1 << 20)
        self.assertEqual(session["bugreport_score"], 3)
        text = self.succeed("status").stdout
        self.assertRegex(text, r"(?m)^sessions  1, 1 started$")
        self.assertRegex(text, r"(?m)^\d+ +seen +\S+ +0 ")
        raw = self.succeed("record", "--query-raw", text=False).stdout
        self.assertIn(b"linux.sys_stats", raw)

    def test_record(self):
        self.config(VMSTAT)
        done = self.succeed("record", "-c", "config", "-o", "trace", "-t", "700ms")
        self.assertNotIn("in this process", done.stderr)
        self.assertGreater(len(self.vmstats("trace")), 0)

    def shown_on_a_terminal(self, *argv):
        """The lines that replaced each other, and the last line, which stays."""
        ours, theirs = os.openpty()
        child = subprocess.Popen([str(a) for a in (lib.MMTRACE, "record", *argv)], env=self.env,
                                 cwd=self.dir, stderr=theirs)
        self.addCleanup(child.wait)
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while part := os.read(ours, 4096):
                shown += part
        os.close(ours)
        self.assertEqual(child.wait(60), 0, shown)
        *progress, summary = shown.decode().replace("\r\n", "\n").split("\x1b[K")
        return [line.strip("\r") for line in progress if line.strip("\r")], summary

    def test_progress_on_a_terminal(self):
        self.config(VMSTAT)
        progress, summary = self.shown_on_a_terminal("-c", "config", "-o", "trace", "-t", "2s")
        lasted = float(re.search(r"(\d+\.\d) s, ", summary)[1])
        self.assertIn(len(progress), range(1, int(2 * lasted) + 4), progress)  # two a second
        summary, verdict = summary.split("\n", 1)
        self.assertRegex(verdict, r"^(  \S.*\n)+$")
        self.assertRegex(verdict, r"\n?  next: mmsql report trace -o trace\.html\n$")
        for line in (*progress, summary):
            self.assertRegex(line,
                             r"\d\.\d s, ([\d,]+ events?, )?[\d.]+ (bytes|KB), (nothing lost|"
                             r"[\d,]+ (events? lost|readings? left out: too late))$")
        self.assertRegex(summary, r"^mmtrace: trace: \d+\.\d s, ")
        self.assertEqual(progress, sorted(progress, key=lambda line: float(line.split(" s, ")[0])))
        progress, _ = self.shown_on_a_terminal("-c", "config", "-o", "trace", "-t", "1s", "--quiet")
        self.assertEqual(progress, [])

    def record_enough(self, *flags):
        """Records until the trace has at least four samples: seven are due in 0.7 s."""
        for ms in lib.longer(700):
            self.succeed("record", "-c", "config", "-o", "trace", "-t", f"{ms}ms", *flags)
            if len(self.vmstats("trace")) > 3:
                break
        self.assertGreater(len(self.vmstats("trace")), 3)

    def test_record_into_a_file(self):
        self.config(VMSTAT)
        self.record_enough("-s", "10mb")

    def test_record_compressed(self):
        self.config(VMSTAT + "compression_type: COMPRESSION_TYPE_DEFLATE")
        for flags in ((), ("-s", "10mb")):
            self.record_enough(*flags)
            trace = (self.dir / "trace").read_bytes()
            self.assertLess(len(list(lib.frames(trace))), len(lib.decode(trace)) / 4)

    def test_record_to_a_pipe(self):
        self.config(VMSTAT)
        done = self.succeed("record", "-c", "config", "-o", "-", "-t", "2s", text=False)
        self.assertGreater(len(lib.of_kind(lib.decode(done.stdout), "sys_stats")), 1)

    def test_record_ends_by_a_signal(self):
        pid = self.record_named("signalled")
        self.stop_background(pid)
        self.assertGreater(len(self.vmstats("signalled.pftrace")), 2)

    def test_a_name_that_lives_is_refused(self):
        pid = self.record_named("once")
        self.fail_with(1, "(?i)the tracing service says: .*once", "record", "-c", "config", "-o",
                       "second", "-t", "1s")
        self.assertFalse((self.dir / "second").exists())
        self.stop_background(pid)

    def test_this_process_records_if_it_is_told_to(self):
        self.config(VMSTAT)
        done = self.succeed("record", "-c", "config", "-o", "trace", "-t", "300ms", "--no-daemon")
        self.assertGreater(len(self.vmstats("trace")), 0)
        self.assertIn("events", done.stderr)

    def test_detach_and_attach(self):
        self.config(VMSTAT + "write_into_file: true file_write_period_ms: 200")
        self.succeed("record", "-c", "config", "-o", "trace", "--detach=key")
        self.assertEqual(len(self.sessions()), 1)
        self.succeed("record", "--is_detached=key")
        self.succeed("record", "--is_detached=key")
        done = self.run_command("record", "--is_detached=other")
        self.assertEqual((done.returncode, done.stderr), (NO_SESSION, ""))
        lib.wait_for(lambda: self.n_vmstats("trace") > 2, "samples in the file")
        self.succeed("record", "--attach=key", "--stop")
        self.assertGreater(len(self.vmstats("trace")), 2)
        self.fail_with(NO_SESSION, "no session is detached as", "record", "--attach=key")

    def test_attach_waits_for_the_end(self):
        self.config(VMSTAT + "write_into_file: true")
        for seconds in (1, 5, 20):  # a busy machine may be too late
            began = time.monotonic()
            self.succeed("record", "-c", "config", "-o", "trace", "-t", f"{seconds}s",
                         "--detach=key")
            done = self.run_command("record", "--attach=key")
            if done.returncode != NO_SESSION:
                break
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(time.monotonic() - began, seconds)
        self.assertGreater(len(self.vmstats("trace")), 0)

    def test_detach_needs_a_file(self):
        self.config(VMSTAT)
        self.fail_with(1, "write_into_file", "record", "-c", "config", "-o", "x", "--detach=key")

    def test_clone(self):
        pid = self.record_named("cloned", "bugreport_score: 1")
        session, = self.named("cloned")
        self.succeed("clone", "cloned", "-o", "by-name")
        self.succeed("clone", session["id"], "-o", "by-id")
        self.succeed("clone", "--bugreport", "-o", "by-score")
        self.succeed("record", "--clone-by-name", "cloned", "-o", "by-flag")
        self.succeed("record", "--save-for-bugreport", "-o", "by-score-flag")
        for name in ("by-name", "by-id", "by-score", "by-flag", "by-score-flag"):
            self.assertGreater(len(self.vmstats(name)), 1, name)
        self.fail_with(1, "not found|no session", "clone", "unheard-of", "-o", "none")
        self.assertFalse((self.dir / "none").exists())
        self.stop_background(pid)
        self.assertGreater(len(self.vmstats("cloned.pftrace")), len(self.vmstats("by-name")))

    def test_trigger_starts(self):
        self.config(trigger_config("START_TRACING", "go", 500))
        child = self.spawn("record", "-c", "config", "-o", "trace")
        lib.wait_for(self.sessions, "a session")
        self.succeed("trigger", "--optional", "unheard-of", "go")
        _, stderr = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 0, stderr)
        packets = lib.decode(self.dir / "trace")
        trigger, = lib.of_kind(packets, "trigger")
        self.assertEqual(trigger.one("trigger", "trigger_name"), "go")
        self.assertGreater(len(lib.of_kind(packets, "sys_stats")), 0)

    def test_trigger_stops(self):
        self.config(trigger_config("STOP_TRACING", "halt", 200))
        child = self.spawn("record", "-c", "config", "-o", "trace")
        lib.wait_for(lambda: any(s["is_started"] for s in self.sessions()), "a started session")
        self.config('activate_triggers: "halt"', "activate")
        self.succeed("record", "-c", "activate")
        _, stderr = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 0, stderr)
        packets = lib.decode(self.dir / "trace")
        self.assertEqual(len(lib.of_kind(packets, "trigger")), 1)

    def test_no_trigger_no_trace(self):
        self.config(trigger_config("START_TRACING", "never", 100, timeout_ms=400))
        done = self.succeed("record", "-c", "config", "-o", "trace")
        self.assertIn("no trigger came", done.stderr)
        self.assertFalse((self.dir / "trace").exists())

    def test_trigger_snapshots(self):
        self.config(trigger_config("CLONE_SNAPSHOT", "snap", 100))
        child = self.spawn("record", "-c", "config", "-o", "trace")
        lib.wait_for(lambda: any(s["is_started"] for s in self.sessions()), "a started session")
        self.wait_sampled(self.sessions()[0]["id"])
        for number in range(2):
            self.succeed("trigger", "snap")
            path = self.dir / f"trace.{number}"
            lib.wait_for(lambda p=path: self.n_vmstats(p) > 0, f"{path}")
        child.send_signal(signal.SIGTERM)
        _, stderr = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 0, stderr)
        self.assertNotIn("no trigger came", stderr)
        for number in range(2):
            self.assertGreater(len(self.vmstats(f"trace.{number}")), 0, stderr)

    def test_bugreport(self):
        best = self.record_named("best", "bugreport_score: 9")
        other = self.record_named("other", 'bugreport_score: 2 bugreport_filename: "oth.pftrace"')
        self.addCleanup(self.stop_background, best)
        self.addCleanup(self.stop_background, other)
        self.succeed("bugreport", "-o", "report.zip")
        report = zipfile.ZipFile(self.dir / "report.zip")
        self.assertIsNone(report.testzip())
        packets = lib.decode(report.read(TRACE_ENTRY))
        self.assertGreater(len(lib.of_kind(packets, "sys_stats")), 1)
        name = lib.of_kind(packets, "trace_config")[0].one("trace_config", "unique_session_name")
        self.assertEqual(name, "best")
        packets = lib.decode(report.read(TRACE_ENTRY.replace("systrace", "oth")))
        self.assertGreater(len(lib.of_kind(packets, "sys_stats")), 1)
        self.assertRegex(report.read("index.txt").decode(), r"(?m)^session \d+  best  .* 9$")
        self.assertTrue(self.named("best")[0]["is_started"])

    def test_bugreport_of_a_session_with_a_file(self):
        pid = self.record_named("filed", "bugreport_score: 4 write_into_file: true "
                                         "file_write_period_ms: 100")
        self.addCleanup(self.stop_background, pid)
        self.succeed("bugreport", "-o", "report.zip")
        report = zipfile.ZipFile(self.dir / "report.zip")
        self.assertIn(TRACE_ENTRY, report.namelist(), report.read("index.txt").decode())
        packets = lib.decode(report.read(TRACE_ENTRY))
        self.assertGreater(len(lib.of_kind(packets, "sys_stats")), 0)


@lib.needs_root
class WithDaemon(ServiceTests, Commands):
    @classmethod
    def make_service(cls):
        return peers.Daemon()

    def test_progress_without_a_daemon(self):
        self.config(VMSTAT)
        seen = []
        for flags in ((), ("--no-daemon",)):
            progress, summary = self.shown_on_a_terminal(
                "-c", "config", "-o", "trace", "-t", "1200ms", "--no-verdict",
                *flags)
            # On a busy machine, some readings are left out.
            seen.append({re.sub(r"[\d.,]+ ", "N ", line.replace("KB", "bytes"))
                         .replace("N readings left out: too late", "nothing lost")
                         .replace("N reading left out: too late", "nothing lost")
                         for line in (progress[-1], summary)})
        self.assertEqual(seen[0], seen[1])

    def test_progress_of_a_waiting_recording(self):
        self.config(trigger_config("START_TRACING", "never", 500, timeout_ms=1500))
        progress, _ = self.shown_on_a_terminal("-c", "config", "-o", "trace")
        self.assertEqual(set(progress), {"waiting for a trigger"})

    def test_status_tells_more(self):
        self.addCleanup(self.stop_background, self.record_named("told"))
        session, = self.named("told")
        self.assertGreater(session["bytes_recorded"], 0)
        self.assertGreater(session["bytes_buffered"], 0)
        self.assertEqual(session["triggers_received"], 0)
        self.assertEqual(session["activity"], "recording")
        self.assertIn("mmtrace", session["consumer"])


    def test_a_source_that_is_left_out_fails_the_command(self):
        """A line names the missing part as soon as the session is made. The exit code at the end is
        1, and the trace is kept."""
        self.config(LEFT_OUT)
        lines = rf"^mmtrace: {WHY}\n(.*\n)*mmtrace: trace: .*(lost|late)\n(.*\n)*mmtrace: {WHY}\n$"
        self.fail_with(1, lines, "record", "-c", "config", "-o", "trace", "-t", "500ms")
        self.assertGreater(self.n_vmstats("trace"), 0)
        self.assertRegex(self.service.log(), rf"mmtrace\[\d+\]: {WHY}\n")

    def test_background_wait_fails_without_a_source(self):
        self.config(LEFT_OUT)
        done = self.fail_with(1, f"^mmtrace: {WHY}$", "record", "-c", "config", "-o", "trace", "-t",
                              "60s", "-D")
        self.stop_background(int(done.stdout))
        self.assertGreater(self.n_vmstats("trace"), 0)

    def test_detached_without_a_source(self):
        """The line comes at once. The command that waits for the end has the exit code."""
        self.config(LEFT_OUT + 'write_into_file: true unique_session_name: "lacking"')
        done = self.succeed("record", "-c", "config", "-o", "trace", "--detach=key")
        self.assertRegex(done.stderr, WHY)
        session, = self.named("lacking")
        self.assertRegex(session["problem"], WHY)
        self.assertRegex(self.succeed("status").stdout, rf"\nsession {session['id']}: {WHY}\n")
        self.fail_with(1, f"^mmtrace: {WHY}$", "record", "--attach=key", "--stop")

    def test_snapshots_without_a_source(self):
        self.config(LEFT_OUT + """
            trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 600000
                triggers { name: "lacking" stop_delay_ms: 1 } }""")
        child = self.spawn("record", "-c", "config", "-o", "trace")
        lib.wait_for(lambda: self.run_command("trigger", "lacking").returncode == 0,
                     "a session that hears")
        lib.wait_for(lambda: self.n_vmstats("trace.0") > 0, "the snapshot")
        child.send_signal(signal.SIGTERM)
        self.assertRegex(child.communicate(timeout=60)[1], rf"\nmmtrace: {WHY}\n$")
        self.assertEqual(child.returncode, 1)


@lib.needs_root
class WithTraced(ServiceTests, Commands):
    @classmethod
    def make_service(cls):
        found = peers.find_perfetto()
        if not found:
            raise unittest.SkipTest("Perfetto is not installed (PATH, or PERFETTO_ROOT)")
        return peers.Traced(*found)

    def test_sources_that_it_lacks_are_recorded_here(self):
        self.config(VMSTAT + 'data_sources { config { name: "linux.page_residency" '
                             'page_residency_config { paths: "/etc/passwd" } } }')
        done = self.succeed("record", "-c", "config", "-o", "trace", "-t", "300ms")
        self.assertIn("in this process: the tracing service has no linux.page_res", done.stderr)


if __name__ == "__main__":
    unittest.main()
