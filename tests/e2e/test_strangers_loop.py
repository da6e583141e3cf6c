# SPDX-License-Identifier: Apache-2.0
"""Users who may record, and keep the daemon's loop busy: requests of others are answered meanwhile
(docs/threat-model.md).

A busy machine delays every answer. Therefore these tests measure the processor time that the daemon
takes until an answer, and the time in which its loop waits for others than its clients."""
import contextlib
import ctypes
import mmap
import os
import pathlib
import socket
import subprocess
import threading
import time
import unittest

import lib
import states
import strangers
from protowire import bind, field, invoke
from strangers_member import AT_ONCE_S, UID, Answers, Members

ENABLE, FREE_BUFFERS, CHANGE, CLONE_SESSION = 1, 4, 7, 15
SCAN = '''data_sources { config { name: "linux.process_stats" process_stats_config {
    scan_all_processes_on_start: true record_thread_names: true } } } '''
SCANS = SCAN * 32
THREADS = """
import threading, time
threading.stack_size(65536)
for _ in range(2000):
    threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
print("ready", flush=True)
time.sleep(300)
"""
FILE_IN_MEMORY = """
import mmap, os, sys, time
file, n = os.memfd_create("large"), int(sys.argv[1]) << 10
os.ftruncate(file, n)
mapped = mmap.mmap(file, 4096)
print("ready", flush=True)
sys.stdin.readline()
for at in range(0, n, 8000):
    os.pwrite(file, bytes(8000), at)
print("full", flush=True)
time.sleep(300)
"""


@lib.needs_root
class Loop(Members):
    def test_state_that_is_cleared_all_the_time(self):
        self.program(THREADS)
        answers, before, begin = Answers(self.daemon), self.daemon.cpu_s(), time.monotonic()
        self.begin("incremental_state_config { clear_period_ms: 1 } duration_ms: 6000 "
                   + SCANS).communicate(timeout=240)
        spent, elapsed = self.daemon.cpu_s() - before, time.monotonic() - begin
        self.assertLess(answers.stop(), AT_ONCE_S)
        # a quarter each for readings and for the start and the end, and the answers
        self.assertLess(spent, 0.75 * elapsed + 1)

    def test_a_start_that_takes_long(self):
        """The data sources begin one after the other, when their user has time again."""
        self.program(THREADS)
        answers = Answers(self.daemon)
        said = self.begin("duration_ms: 4000 " + SCANS).communicate(timeout=240)[1]
        self.assertLess(answers.stop(), AT_ONCE_S)
        self.assertRegex(said, r"[1-9]\S* events")

    def test_starts_by_a_trigger(self):
        self.program(THREADS)
        recorders = [self.begin(
            'trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 60000 '
            f'triggers {{ name: "go" stop_delay_ms: 2000 }} }} {SCANS}', f"trace-{i}")
            for i in range(5)]
        lib.wait_for(lambda: self.daemon.status().count(" armed ") == 5, "the sessions")
        answers = Answers(self.daemon)
        fired = lib.run(lib.MMTRACE, "trigger", "go", env=self.daemon.env, user=UID + 5,
                        group=UID + 5, extra_groups=[])
        self.assertEqual(fired.returncode, 0, fired.stderr)
        for recorder in recorders:
            self.assertRegex(recorder.communicate(timeout=240)[1], r"[1-9]\S* events")
        self.assertLess(answers.stop(), AT_ONCE_S)

    def take_snapshots(self):
        """Takes snapshots of "x" without end, and frees them at once."""
        def ask(voice, path):
            requests = b"".join(
                invoke(10 + 2 * i, CLONE_SESSION, field(4, b"x")) +
                invoke(11 + 2 * i, FREE_BUFFERS, field(1, 0)) for i in range(8))
            clients = []
            for _ in range(8):
                client = socket.socket(socket.AF_UNIX)
                client.connect(str(path))
                client.sendall(bind())
                client.recv(65536)
                clients.append(client)
            for client in clients:
                client.sendall(requests)
            end = time.monotonic() + 8
            for client in clients:
                client.settimeout(1)
                with contextlib.suppress(OSError):
                    while time.monotonic() < end and client.recv(65536):
                        pass
            voice.say("done")
            voice.stay()
        answers = Answers(self.daemon)
        stranger = strangers.Stranger(ask, self.daemon.run_dir / "consumer.sock")
        self.addCleanup(stranger.end)
        self.assertEqual(stranger.hear(), "done")
        self.assertLess(answers.stop(), AT_ONCE_S)

    def test_snapshots_that_clear_all_state(self):
        """Each data source begins anew for each snapshot."""
        self.program(THREADS)
        recorder = self.begin('unique_session_name: "x" duration_ms: 600000 ' + SCANS,
                              buffer="clear_before_clone: true")
        lib.wait_for(lambda: " recording " in self.daemon.status(), "the session")
        self.take_snapshots()
        recorder.terminate()
        recorder.communicate(timeout=240)

    def test_the_time_when_all_have_begun(self):
        """The trace notes the start of all data sources when the last one has begun."""
        self.program(THREADS)
        recorder = self.begin("duration_ms: 12000 " + SCAN * 24 + """data_sources { config {
            name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 1000 } } }""")
        said = recorder.communicate(timeout=240)[1]
        packets = lib.decode(self.dir / "trace")
        all_begun = [p.one("timestamp") for p in lib.of_kind(packets, "service_event")
                     if p.one("service_event", "all_data_sources_started")]
        self.assertEqual(len(all_begun), 1 if recorder.returncode == 0 else 0, said)
        if all_begun:  # a slow machine does not start all of them in time
            last_began = min(p.one("timestamp") for p in lib.of_kind(packets, "sys_stats"))
            self.assertGreaterEqual(all_begun[0], last_began)

    def test_sources_that_had_no_time(self):
        """The recording says so if it ends before all data sources have begun, even if those that
        have begun are over."""
        self.program(THREADS)
        for own in ("", "trace_duration_ms: 100 "):
            scan = SCAN.replace("process_stats_config", own + "process_stats_config", 1)
            recorder = self.begin("duration_ms: 600 " + scan * 31 + '''data_sources { config {
                name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 20 } } }''')
            said = recorder.communicate(timeout=240)[1]
            has_last = bool(lib.of_kind(lib.decode(self.dir / "trace"), "sys_stats"))
            is_told = "before its user had time for its start" in said
            self.assertEqual(recorder.returncode, 1 if is_told else 0, said)
            self.assertTrue(has_last or is_told, said)

    def test_sources_that_are_opened(self):
        """Sessions that do not start yet open their data sources."""
        events = field(1, b"[a-m]*/*")
        source = field(2, field(1, field(1, b"linux.ftrace") + field(100, events + field(13, 1))))
        config = field(1, field(1, 64)) + source * 32 + field(12, 1)  # deferred_start

        def ask(voice, path):
            clients = []
            for i in range(5):
                clients.append(socket.socket(socket.AF_UNIX))
                clients[-1].connect(str(path))
                clients[-1].sendall(bind() + invoke(2, ENABLE, field(1, config)))
            ends = time.monotonic() + 30  # the daemon lets this user wait
            for i in range(6):
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(str(path))
                    client.sendall(bind() + b"".join(
                        invoke(2 + 2 * i, ENABLE, field(1, config))
                        + invoke(3 + 2 * i, FREE_BUFFERS) for i in range(6)))
                    client.settimeout(max(0.1, ends - time.monotonic()))
                    with contextlib.suppress(OSError):
                        while client.recv(65536) and time.monotonic() < ends:
                            client.settimeout(2)
            voice.say("asked")
            voice.stay()

        answers, before = Answers(self.daemon), self.daemon.rss_kb()
        stranger = strangers.Stranger(ask, self.daemon.run_dir / "consumer.sock")
        self.addCleanup(stranger.end)
        self.assertEqual(stranger.hear(), "asked")
        taken_kb = self.daemon.rss_kb() - before
        self.assertLess(answers.stop(), AT_ONCE_S)
        strangers.figure(self, f"the sessions take {taken_kb / 1024:.0f} MiB")
        self.assertLess(taken_kb, 200 << 10)

    def test_ends_that_wait(self):
        """Maps of functions are on a file system that takes its time for each answer."""
        strangers.fuse_device(self.dir)
        theirs = self.dir / "theirs"
        theirs.mkdir(mode=0o777)
        theirs.chmod(0o777)
        program = strangers.start_program("slow", theirs, "/tmp", "perf-", "/bin/sleep", "100")
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.assertEqual(strangers.hear_program(program), "ready\n")
        children = pathlib.Path(f"/proc/{program.pid}/task/{program.pid}/children")
        pid = int(lib.wait_for(children.read_text, "the command").split()[0])
        answers = Answers(self.daemon)
        source = f'''data_sources {{ config {{ name: "linux.perf_map" perf_map_config {{
            pids: {pid} period_ms: 60000 }} }} }} '''
        recorder = self.begin("duration_ms: 1000 " + source * 32)
        recorder.communicate(timeout=240)
        self.assertLess(answers.stop(), AT_ONCE_S)
        self.assertIn("asked for perf-", strangers.hear_program(program))

    def test_a_mount_that_does_not_answer(self):
        """The mount is among the daemon's own, and lets all users in."""
        device, folder = strangers.fuse_device(self.dir), self.dir / "mounted"
        folder.mkdir()
        fuse_fd = os.open(device, os.O_RDWR)
        self.addCleanup(os.close, fuse_fd)
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={fuse_fd},rootmode=40000,user_id={UID},group_id={UID},allow_other"
        if libc.mount(b"stranger", os.fsencode(folder), b"fuse", 0, options.encode()) < 0:
            self.skipTest(f"FUSE cannot be mounted: {os.strerror(ctypes.get_errno())}")
        self.addCleanup(libc.umount2, os.fsencode(folder), 2)
        answers = Answers(self.daemon)
        recorder = self.begin(f'''duration_ms: 6000 data_sources {{ config {{
            name: "linux.page_residency" page_residency_config {{ paths: "{folder}" period_ms: 500
            rescan_period_ms: 1000 }} }} }} ''')
        recorder.communicate(timeout=240)
        self.assertLess(answers.stop(), AT_ONCE_S)

    def wait_for_triggers(self, delay_ms):
        """Returns the recorder of a session whose snapshots take time, and two functions: one fires
        a trigger as a user, the other gives the names of the snapshots."""
        self.program(THREADS)
        recorder = self.begin(f'''trigger_config {{ trigger_mode: CLONE_SNAPSHOT
            trigger_timeout_ms: 600000 triggers {{ name: "t" stop_delay_ms: {delay_ms} }} }} '''
                              + SCANS, buffer="clear_before_clone: true")
        lib.wait_for(lambda: "recording" in self.daemon.status(), "the session")

        def is_at_rest():
            before = self.daemon.cpu_s()
            time.sleep(1)
            return self.daemon.cpu_s() - before < 0.02
        lib.wait_for(is_at_rest, "the start of all data sources")

        def fire(uid):
            fired = subprocess.run([lib.MMTRACE, "trigger", "t"], env=self.daemon.env, user=uid,
                                   group=uid, extra_groups=[], capture_output=True, text=True,
                                   check=False)
            self.assertEqual(fired.returncode, 0, fired.stderr)

        def snapshots():
            return sorted(path.name for path in self.dir.glob("trace.*") if path.suffix != ".cfg")
        return recorder, fire, snapshots

    def test_a_snapshot_that_root_has_ordered(self):
        """A trigger of a stranger, whose snapshot takes time, does not cost the next one."""
        recorder, fire, snapshots = self.wait_for_triggers(1)
        fire(UID + 1)
        lib.wait_for(snapshots, "the stranger's snapshot")
        fire(0)
        lib.wait_for(lambda: snapshots() == ["trace.0", "trace.1"], "root's snapshot")
        recorder.terminate()
        self.assertNotIn("snapshot:", recorder.communicate(timeout=240)[1])

    def test_snapshots_that_root_has_ordered_together(self):
        recorder, fire, snapshots = self.wait_for_triggers(1000)
        fire(0)
        fire(0)
        lib.wait_for(lambda: snapshots() == ["trace.0", "trace.1"], "both snapshots")
        recorder.terminate()
        self.assertNotIn("snapshot:", recorder.communicate(timeout=240)[1])

    def test_a_large_file_that_only_the_daemon_holds(self):
        """The last close of a file in memory frees the memory, in another process."""
        self.check_close(200 << 10)

    def test_one_of_many_files_that_only_the_daemon_holds(self):
        self.check_close(1000)

    def check_close(self, size_kb):
        program = self.program(FILE_IN_MEMORY, str(size_kb))
        recorder = self.begin(
            f'''duration_ms: 600000 data_sources {{ config {{ name: "linux.page_residency"
            page_residency_config {{ pids: {program.pid} period_ms: 3600000
            rescan_period_ms: 1000 }} }} }} ''')

        def is_held():
            return any("memfd:large" in link for link in states.open_files(self.daemon.process.pid))
        lib.wait_for(is_held, "the daemon holds the file")
        program.stdin.write(b"\n")
        program.stdin.flush()
        self.assertEqual(program.stdout.readline(), b"full\n")
        before = states.names_of_children(self.daemon.process.pid)
        program.kill()
        program.wait()
        lib.wait_for(lambda: not is_held(), "the daemon gives the file up")
        after = states.names_of_children(self.daemon.process.pid)
        self.assertGreater(len(after), len(before), "no process has closed the file")
        recorder.terminate()
        self.end(recorder)

    def test_a_mount_namespace_that_has_ended(self):
        """The daemon reads the mounts of a process whose files it looks at, and does not keep the
        namespace alive after the process."""
        place = self.dir / "place"
        place.mkdir(mode=0o755)
        os.chown(place, UID, UID)

        def map_a_file(voice, folder):
            libc = strangers.enter_namespaces(voice)
            if libc.mount(b"none", os.fsencode(folder), b"tmpfs", 0, None) < 0:
                voice.say(f"cannot: mount: {os.strerror(ctypes.get_errno())}")
                os._exit(0)
            (folder / "file").write_bytes(bytes(1 << 20))
            with open(folder / "file", "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            voice.say("ready")
            voice.stay()
            mapped.close()
        stranger = strangers.Stranger(map_a_file, place)
        self.addCleanup(stranger.end)
        self.assertEqual(stranger.hear(), "ready")
        with open(self.dir / "root.cfg", "w") as config:
            config.write(
                f"""buffers {{ size_kb: 1024 }} duration_ms: 600000 data_sources {{ config {{
                name: "linux.page_residency" page_residency_config {{ pids: {stranger.pid}
                period_ms: 200 rescan_period_ms: 500 }} }} }}""")
        recorder = lib.Popen([lib.MMTRACE, "record", "-c", config.name, "-o", self.dir / "root"],
                             env=self.daemon.env, stderr=subprocess.PIPE, text=True)
        self.addCleanup(recorder.__exit__, None, None, None)
        self.addCleanup(recorder.kill)
        mounts = f"/{stranger.pid}/mountinfo"

        def holds(name):
            links = states.open_files(self.daemon.process.pid)
            return any(link.endswith(name) for link in links)
        lib.wait_for(lambda: holds("/file"), "the daemon holds the file")
        stranger.end()
        lib.wait_for(lambda: not holds(mounts), "the daemon gives the mounts up")
        recorder.terminate()
        self.end(recorder)

    def test_a_source_that_ends_in_its_walk(self):
        """Another recording of the same user can walk then."""
        files, one = self.dir / "files", self.dir / "one"
        files.mkdir()
        one.mkdir()
        for i in range(20000):
            (files / str(i)).write_bytes(b"x")
        (one / "x").write_bytes(b"x" * 5000)
        watch = ('data_sources {{ config {{ name: "linux.page_residency" {} page_residency_config '
                 '{{ paths: "{}" max_files: 1000000 period_ms: 500 }} }} }} ').format
        first = self.begin(
            "duration_ms: 600000 " + watch("trace_duration_ms: 1", files) +
            'data_sources { config { name: "linux.sys_stats" '
            'sys_stats_config { meminfo_period_ms: 1000 } } }', "first")
        lib.wait_for(lambda: " recording " in self.daemon.status(), "the session")
        said = self.end(self.begin("duration_ms: 5000 " + watch("", one), "second"))
        self.assertNotIn(" 0 events", said)
        first.terminate()
        self.end(first)

    def test_changes_of_a_config_without_end(self):
        """Each change costs the check of its expressions, so the limit of requests for sessions
        counts for changes, too."""
        config = (field(1, field(1, 64)) + field(2, field(1, field(1, b"linux.sys_stats"))))

        def ask(voice, path):
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(path))
            client.sendall(bind() + invoke(2, ENABLE, field(1, config)) + b"".join(
                invoke(10 + i, CHANGE, field(1, config)) for i in range(100)))
            client.settimeout(2)
            with contextlib.suppress(OSError):
                while client.recv(65536):
                    pass
            voice.say("done")
            voice.stay()
        stranger = strangers.Stranger(ask, self.daemon.run_dir / "consumer.sock")
        self.addCleanup(stranger.end)
        self.assertEqual(stranger.hear(), "done")
        self.assertRegex(self.daemon.said(), "ChangeTraceConfig: .*requests for sessions")


if __name__ == "__main__":
    unittest.main()
