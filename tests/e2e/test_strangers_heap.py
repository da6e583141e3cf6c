# SPDX-License-Identifier: Apache-2.0
"""Programs of a user without rights that turn root's look-ups in their files against root: sockets
in their folders, perf maps, files of symbols, clients of the heap's socket. tests/tools/stranger.c
is the program."""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest

import states
import strangers
from strangers import UID
from lib import (BUILD, MMSQL, MMTRACE, decode, hides_tmp, needs_program, needs_root, of_kind, run,
                 wait_for)
from test_heap import LIBRARY, TRUTH

ALONE = "its recorders profile the program of other tests, heap_truth, too"
DEAF_S = 2   # that a look-up may take (FOREIGN_TIME)
ATTACH_S = 12  # until a program is attached to, on a busy machine; a helper may hang for 15 s

PERF_MAP = """
buffers { size_kb: 4096 }
data_sources { config { name: "linux.perf_map" perf_map_config { process_cmdlines: "sleep"
  period_ms: 50 } } }
"""
HEAP = """
buffers { size_kb: 16384 }
data_sources {
  config {
    name: "linux.heap"
    heapprofd_config {
      sampling_interval_bytes: 4096
      process_cmdline: "stranger"
      process_cmdline: "heap_truth"
      no_running: true
    }
  }
}
"""


def rss_kb(pid):
    """The largest size that the process's own memory had."""
    return int(states.proc_text(pid, "status").partition("VmHWM:")[2].split()[0])


def children(pid):
    return [int(child) for child in states.proc_text(pid, f"task/{pid}/children").split()]


@needs_root
class Strangers(unittest.TestCase):
    def setUp(self):
        # the strangers' mounts hide /tmp
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="strangers-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.dir.chmod(0o755)
        self.trace, self.run_dir = self.dir / "trace", self.dir / "run"
        self.theirs = self.dir / "theirs"
        self.theirs.mkdir()
        os.chown(self.theirs, UID, UID)
        self.env = {**os.environ, "MMTRACE_HEAP_SOCKET": str(self.dir / "heap.sock")}
        self.recorder_env = None  # as self.env

    def start(self, *argv, **more):
        more = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True,
                "env": self.env, **more}
        process = subprocess.Popen([str(a) for a in argv], **more)
        for stream in (process.stdout, process.stderr):
            if stream:
                self.addCleanup(stream.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def stranger(self, *argv, uid=UID, until="ready"):
        """Starts a program without rights, and waits until it says that its trap is set."""
        process = strangers.start_program(*argv, uid=uid, env=self.env)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        if until:
            self.hear(process, until)
        return process

    def hear(self, process, text):
        line = strangers.hear_program(process)
        self.assertTrue(line.startswith(text), f"{line!r} instead of {text!r}")
        return line

    def deaf(self, prefix, *command):
        """Starts a process whose /tmp never answers for names with this beginning. Returns the
        process, and the pid of the command that it runs."""
        strangers.fuse_device(self.dir)
        process = self.stranger("deaf", self.theirs, "/tmp", prefix, *command)
        if not command:
            return process, process.pid
        wait_for(lambda: children(process.pid), "the command")
        return process, children(process.pid)[0]

    def record(self, config, *options):
        path = self.dir / "config"
        path.write_text(config)
        recorder = self.start(MMTRACE, "record", "-c", path, "-o", self.trace, *options,
                              env=self.recorder_env or self.env)
        states.wait_for_recorder(recorder.pid)
        return recorder

    def end(self, recorder, within_s=20, code=0):
        """Ends the recorder, which strangers try to hang. Returns its messages. `code` is its exit
        code; None: any."""
        began = time.monotonic()
        recorder.send_signal(signal.SIGINT)
        try:
            said = recorder.communicate(timeout=within_s)[1]
            strangers.figure(self, f"the recorder ends in {time.monotonic() - began:.1f} s")
        except subprocess.TimeoutExpired:
            self.fail(
                f"the recorder does not end within {within_s} "
                f"s, in state {states.proc_text(recorder.pid, 'stat')[:40]}")
        if code is not None:
            self.assertEqual(recorder.returncode, code, said)
        return said

    def query(self, sql):
        database = self.dir / "db"
        database.unlink(missing_ok=True)
        done = run(MMSQL, "convert", "-q", self.trace, "-o", database)
        self.assertEqual(done.returncode, 0, done.stderr)
        with contextlib.closing(sqlite3.connect(database)) as connection:
            return connection.execute(sql).fetchall()


class PerfMaps(Strangers):
    def honest(self, name="honest"):
        """Starts a process of another user that has a map from its beginning. Returns its pid."""
        uid = UID + 1
        process = self.start("sleep", "60", user=uid, group=uid, extra_groups=[])
        path = pathlib.Path(f"/tmp/perf-{process.pid}.map")
        path.write_text(f"1000 10 {name}\n")
        os.chown(path, uid, uid)
        self.addCleanup(path.unlink, missing_ok=True)
        return process.pid

    def maps(self):
        """The names that the trace has so far, by process."""
        with contextlib.suppress(OSError, ValueError):
            return {p.one("perfMap", "pid", default=0): p
                    for p in of_kind(decode(self.trace), "perf_map")}
        return {}

    def test_a_tmp_that_never_answers(self):
        """The recorder reads the maps of other users meanwhile, and the recording ends when it
        should."""
        thief, pid = self.deaf("perf-", "/bin/sleep", "60")
        honest = self.honest()
        recorder = self.record(PERF_MAP)
        self.hear(thief, f"asked for perf-{pid}.map")
        said = self.end(recorder)
        self.assertIn(f"a look-up or read of a file of user {UID} took {DEAF_S} s", said)
        self.assertEqual(self.query(
            "SELECT pid, name FROM perf_map JOIN perf_map_symbol s ON s.perf_map_id = perf_map.id"),
                         [(honest, "honest")])


class Summons(Strangers):
    def test_a_socket_of_roots_in_the_place_of_the_summons(self):
        """Root gives no file away: a file that is mounted over the name of its socket stays
        root's."""
        path = self.dir / "of_root"
        with socket.socket(socket.AF_UNIX) as of_root:
            of_root.bind(str(path))
            path.chmod(0o600)
            thief = self.stranger("swap", path)
            heard = []
            reader = threading.Thread(target=lambda: heard.extend(iter(thief.stdout.readline, "")))
            reader.start()
            self.addCleanup(reader.join)
            self.addCleanup(thief.kill)
            for n in range(15):
                run(MMTRACE, "heap", "-o", self.trace, "-d", "250", "-p", thief.pid)
                wait_for(lambda: len(heard) > n, f"summons {n}")
                if "mine" in heard[-1]:
                    break
            st = path.stat()
        self.assertEqual((st.st_uid, st.st_mode & 0o7777), (0, 0o600), heard)


class Residency(Strangers):
    def record_residency(self, pids, paths=()):
        """Records which of these files, and files of these processes, are in memory. Returns the
        recorder's messages."""
        watched = [f"pids: {pid}" for pid in pids] + [f'paths: "{path}"' for path in paths]
        config = (
            'buffers { size_kb: 4096 } data_sources { config { name: "linux.page_residency" '
            f"page_residency_config {{ {' '.join(watched)} period_ms: 100 }} }} }}")
        recorder = self.record(config)
        wait_for(lambda: any("/libc" in file for file in states.open_files(recorder.pid)),
                 "the recorder opens a file")
        said = self.end(recorder)
        self.assertNotEqual(
            self.query("SELECT 1 FROM page_residency_file WHERE path LIKE '%/libc%'"), [])
        return said

    def test_lent_files_that_never_answer(self):
        """A process without mounts of its own maps a file of another process's mounts."""
        strangers.fuse_device(self.dir)
        thief = self.stranger("lend", self.theirs, until=None)
        borrower = int(self.hear(thief, "ready").split()[1])
        honest = self.start("sleep", "60")
        said = self.record_residency([borrower, honest.pid])
        self.assertIn(f"process {borrower}: /tmp/file is left out", said)
        self.assertEqual(
            self.query("SELECT path FROM page_residency_file WHERE path GLOB '*/file'"), [])

    def test_names_that_lead_into_their_mounts(self):
        strangers.fuse_device(self.dir)
        thief = self.stranger("map", self.theirs)
        mine = self.dir / "mine"
        mine.mkdir()
        (mine / "honest").write_text("text")
        names = [f"/proc/{thief.pid}/root/tmp/file", f"/proc/{thief.pid}/map_files", mine / "link",
                 mine / "li*"]
        (mine / "link").symlink_to(f"/proc/{thief.pid}/root/tmp")
        said = self.record_residency([self.start("sleep", "60").pid], [mine, *names])
        for name in names[:3]:
            self.assertIn(f"{name}: the kernel makes the files there", said)
        self.assertEqual(
            self.query(f"SELECT path FROM page_residency_file WHERE path GLOB '{mine}*'"),
            [(str(mine / "honest"),)])

    def test_mapped_files_that_never_answer(self):
        """No file is opened that is only in the process's own mounts; its other files, and
        files of other processes, are opened."""
        strangers.fuse_device(self.dir)
        thief = self.stranger("map", self.theirs)
        said = self.record_residency([thief.pid, self.start("sleep", "60").pid])
        self.assertIn(f"process {thief.pid}: /tmp/file is left out", said)
        paths = {path for path, in self.query("SELECT path FROM page_residency_file")}
        self.assertIn(os.path.realpath(strangers.PROGRAM), paths)
        self.assertNotIn("/tmp/file", paths)


class Attaches(Strangers):
    def test_a_root_that_never_answers(self):
        """The helper that attaches hangs at its look-up of the library; the recorder ends all the
        same."""
        strangers.fuse_device(self.dir)
        thief = self.stranger("deaf", self.theirs, BUILD / "producer", "agents", "/bin/sleep", "60")
        wait_for(lambda: children(thief.pid), "the command")
        pid = children(thief.pid)[0]
        states.wait_for_program(pid, "sleep")
        recorder = self.start(MMTRACE, "heap", "-o", self.trace, "-p", pid)
        states.wait_for_recorder(recorder.pid)
        self.hear(thief, "asked for agents")
        recorder.send_signal(signal.SIGINT)
        try:
            said = recorder.communicate(timeout=20)[1]
        except subprocess.TimeoutExpired:
            self.fail("the recorder does not end within 20 s")
        self.assertIn("a look-up or read of its files took too long", said)


    def test_many_roots_that_never_answer(self):
        """Programs of other users are attached to meanwhile."""
        strangers.fuse_device(self.dir)
        for name, program in (("strange_sleep", shutil.which("sleep")), ("honest_truth", TRUTH)):
            shutil.copy(program, self.dir / name)
        thief = self.stranger("deaf", self.theirs, BUILD / "producer", "agents", "/bin/sh", "-c",
                              f"for i in $(seq 12); do {self.dir}/strange_sleep 100 & done; wait")
        wait_for(lambda: children(thief.pid) and len(children(children(thief.pid)[0])) == 12,
                 "the commands")
        with open(self.dir / "log", "wb") as log:
            (self.dir / "config").write_text(HEAP.replace("stranger", "strange_sleep").replace(
                "heap_truth", "honest_truth").replace("no_running: true", ""))
            recorder = self.start(MMTRACE, "record", "--no-verdict", "-c", self.dir / "config",
                                  "-o", self.trace, stderr=log)
        states.wait_for_recorder(recorder.pid)
        self.hear(thief, "asked for agents")
        wait_for(lambda: sum("mmheap-attach" in states.proc_text(pid, "comm")
                             for pid in children(recorder.pid)) >= 2, "the helpers")
        honest = self.start(self.dir / "honest_truth", "1", "2000000000", user=UID + 1,
                            group=UID + 1, extra_groups=[])
        began = time.monotonic()
        wait_for(lambda: f"process {honest.pid}: attached" in (self.dir / "log").read_text(),
                 lambda: (self.dir / "log").read_text(), ATTACH_S)
        strangers.figure(self, f"attached after {time.monotonic() - began:.1f} s")
        recorder.send_signal(signal.SIGINT)
        self.assertEqual(recorder.wait(ATTACH_S), 0, (self.dir / "log").read_text())


    def test_many_programs_that_never_allocate(self):
        """Dormant programs of one user that were woken and do not ask leave room for other users'
        programs."""
        # Other tests may run at the same time, and have other users.
        strange_sh, honest_truth = f"strange_{UID}", f"honest_{UID}"
        for name, program in ((strange_sh, "/bin/sh"), (honest_truth, TRUTH)):
            shutil.copy(program, self.dir / name)
        # Without its helper, which would be beside the library, the recorder cannot attach.
        library = self.dir / LIBRARY.name
        shutil.copy(LIBRARY, library)
        dormant = {**self.env, "LD_PRELOAD": str(library)}
        os.mkfifo(self.dir / "fifo", 0o644)
        strange = self.start(
            self.dir / strange_sh, "-c",
            f"for i in $(seq 80); do (read x < {self.dir}/fifo) & done; echo ready; wait",
            stdout=subprocess.PIPE, user=UID, group=UID, extra_groups=[], env=dormant,
            start_new_session=True)
        self.addCleanup(os.killpg, strange.pid, signal.SIGKILL)
        self.assertEqual(strange.stdout.readline(), "ready\n")
        wait_for(lambda: sum(states.proc_text(pid, "stat").rpartition(")")[2][1:2] == "S"
                             for pid in children(strange.pid)) == 80, "readers that wait")
        (self.dir / "config").write_text(HEAP.replace("stranger", strange_sh).replace(
            "heap_truth", honest_truth).replace("no_running: true", ""))
        with open(self.dir / "log", "wb") as log:
            recorder = self.start(MMTRACE, "record", "--no-verdict", "-c", self.dir / "config",
                                  "-o", self.trace, stderr=log,
                                  env={**self.env, "MMTRACE_HEAP_LIBRARY": str(library)})
        def said():
            return (self.dir / "log").read_text()

        wait_for(lambda: said().count("is profiled from its next allocation on") >= 16, said)
        honest = self.start(self.dir / honest_truth, "1", "2000000000", user=UID + 1,
                            group=UID + 1, extra_groups=[],
                            env={**dormant, "MMTRACE_HEAP_SOCKET": str(self.dir / "nobody")})
        wait_for(lambda: f"process {honest.pid}: woken" in said(), said)
        recorder.send_signal(signal.SIGINT)
        self.assertEqual(recorder.wait(60), 0, said())
        self.assertLessEqual(said().count("is profiled from its next allocation on"), 16)


class Clients(Strangers):
    def profile(self):
        """A recorder that profiles programs which ask for it themselves."""
        recorder = self.record(HEAP)
        wait_for((self.dir / "heap.sock").exists, "the socket")
        return recorder

    def honest(self):
        """Another user's program, which is profiled from its beginning to its end."""
        began = time.monotonic()
        program = self.start(TRUTH, "1", "200000", user=UID + 1, group=UID + 1, extra_groups=[],
                             env={**self.env, "LD_PRELOAD": str(LIBRARY)})
        self.assertEqual(program.wait(60), 0)
        strangers.figure(self,
                         "another user's program with 200,000 allocations takes "
                         f"{time.monotonic() - began:.1f} s")

    def elf(self, path, table_bytes):
        """Makes a file of 4 KiB on the disk whose table of symbols claims `table_bytes` bytes."""
        import struct
        head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 0, 64, 0, 64,
                           0, 0, 64, 3, 0)
        names_at = 64 + 3 * 64
        symbols_at = 4096
        def section(kind, offset, size, link):
            return struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, offset, size, link, 0, 1, 24)
        sections = section(0, 0, 0, 0) + section(2, symbols_at, table_bytes,
                                                 2) + section(3, names_at, table_bytes, 0)
        with open(path, "wb") as file:
            file.write(head + sections)
            file.truncate(symbols_at + table_bytes + 4096)

    def test_a_file_of_symbols_by_many_names(self):
        """A file is read once, however many names it has; the recorder does not keep its tables."""
        path = self.theirs / "elf"
        self.elf(path, 120 << 20)
        recorder = self.profile()
        before = rss_kb(recorder.pid)
        thief = self.stranger("client", self.dir / "heap.sock", "spell", "12", path)
        self.hear(thief, "read")
        self.end(recorder, 60)
        grown = self.peak_kb - before
        self.assertLess(grown, 64 << 10)

    def end(self, recorder, within_s=20, code=0):
        self.peak_kb = 0
        ends = threading.Event()

        def watch():
            while not ends.wait(0.01):
                with contextlib.suppress(IndexError, OSError):
                    own = rss_kb(recorder.pid)
                    self.peak_kb = max(self.peak_kb, own)
        thread = threading.Thread(target=watch)
        thread.start()
        try:
            return super().end(recorder, within_s, code)
        finally:
            ends.set()
            thread.join()

    def test_files_that_are_no_files(self):
        """A FIFO that a client names is not opened: its writer goes on waiting."""
        fifo = self.theirs / "fifo"
        os.mkfifo(fifo, 0o666)
        os.chown(fifo, UID, UID)
        recorder = self.profile()
        thief = self.stranger("client", self.dir / "heap.sock", "name", "1", fifo, "/dev/ptmx",
                              "/proc/kmsg")
        self.hear(thief, "read")
        opened = []

        def write():
            with contextlib.suppress(OSError):
                os.close(os.open(fifo, os.O_WRONLY))
                opened.append(True)
        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        self.end(recorder)
        self.assertEqual(opened, [])
        with open(fifo, "rb", buffering=0,
                  opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)):
            writer.join()

    @hides_tmp
    def test_files_of_the_host_are_not_those_of_a_container(self):
        """A path that does not exist in the root of the process names no file."""
        path = pathlib.Path("/tmp/strangers-host-file")
        shutil.copy(TRUTH, path)
        self.addCleanup(path.unlink)
        symbol = run("nm", path).stdout
        at = next(line.split()[0] for line in symbol.splitlines() if line.endswith(" keep_small"))
        recorder = self.profile()
        # "deaf" has a /tmp of its own, where the file is not.
        strangers.fuse_device(self.dir)
        thief = self.stranger("deaf", self.theirs, "/tmp", "never", strangers.PROGRAM, "client",
                              self.dir / "heap.sock", "at",
                              at, path, until=None)
        heard = {strangers.hear_program(thief).strip() for _ in range(3)}
        self.assertEqual(heard, {"ready", "read"}, heard)
        self.end(recorder)
        self.assertEqual(
            self.query("SELECT name FROM stack_profile_frame WHERE name = 'keep_small'"), [])

    def test_a_symbol_file_that_never_answers(self):
        """The recorder finds the names of other users' programs meanwhile, and the recording ends
        when it should."""
        strangers.fuse_device(self.dir)
        recorder = self.profile()
        thief = self.stranger("deaf", self.theirs, "/tmp", "lib", strangers.PROGRAM, "client",
                              self.dir / "heap.sock", "name",
                              "3", "/tmp/lib1.so", "/tmp/lib2.so", until=None)
        self.honest()
        while "read" not in strangers.hear_program(thief):
            pass
        self.end(recorder)
        self.assertNotEqual(
            self.query("SELECT name FROM stack_profile_frame WHERE name = 'keep_small'"), [])

    def check_lingering(self):
        """A close that would wait for the stranger's network holds up neither the recorder nor
        other programs."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            recorder = self.profile()
            thief = strangers.Stranger(strangers.pass_lingering, self.dir / "heap.sock",
                                       listener.getsockname()[1], socket.SOCK_SEQPACKET, b"x")
            self.addCleanup(thief.end)
            self.assertEqual(thief.hear(), "sent")
            self.honest()
            self.end(recorder)
        self.assertNotEqual(
            self.query("SELECT name FROM stack_profile_frame WHERE name = 'keep_small'"), [])

    def test_descriptors_that_linger(self):
        self.check_lingering()

    @needs_program("cc")
    def test_descriptors_that_linger_before_linux_6_16(self):
        self.recorder_env = {**self.env, "LD_PRELOAD": str(strangers.old_kernel(self))}
        self.check_lingering()

    def test_connections_without_end(self):
        """Strangers that connect again and again do not keep others from a profile."""
        recorder = self.profile()
        thieves = [strangers.Stranger(strangers.connect_again, self.dir / "heap.sock")
                   for _ in range(3)]
        for thief in thieves:
            self.addCleanup(thief.end)
        for thief in thieves:
            self.assertEqual(thief.hear(), "connected")
        self.honest()
        for thief in thieves:
            thief.end()
        self.end(recorder)
        self.assertNotEqual(
            self.query("SELECT name FROM stack_profile_frame WHERE name = 'keep_small'"), [])

    def test_a_crowd(self):
        """The profiles of one user are limited; other users get their profiles, and the log stays
        short."""
        recorder = self.profile()
        crowd = self.stranger("crowd", self.dir / "heap.sock", "700", until=None)
        n = int(self.hear(crowd, "ready: ").split()[1])
        self.honest()
        crowd.kill()
        said = self.end(recorder, 60)
        # The recorder attaches to some of the crowd before they ask, and these count, too.
        n_attached = said.count(": attached, ")
        self.assertLessEqual(n, 512)
        self.assertGreaterEqual(n + n_attached, 512, said)
        self.assertRegex(said,
                         "process .* is not profiled: the limit of 512 profiles of running "
                         "processes of one user")
        self.assertRegex(said, "[0-9]+ processes are not profiled because of limits")
        self.assertLess(said.count("\n") - n_attached, 20)
        self.assertNotEqual(
            self.query("SELECT name FROM stack_profile_frame WHERE name = 'keep_small'"), [])

    def test_few_descriptors(self):
        """Profiles of others leave a recorder half of its descriptors; refused profiles
        do not keep the recorder busy."""
        path = self.dir / "config"
        path.write_text(HEAP)
        recorder = self.start("prlimit", "--nofile=60", MMTRACE, "record", "-c", path, "-o",
                              self.trace)
        states.wait_for_recorder(recorder.pid)
        wait_for((self.dir / "heap.sock").exists, "the socket")
        crowd = self.stranger("crowd", self.dir / "heap.sock", "100", until=None)
        self.assertEqual(int(self.hear(crowd, "ready: ").split()[1]), 5)
        self.assertLess(len(os.listdir(f"/proc/{recorder.pid}/fd")), 40)
        states.wait_for_rest(recorder.pid, 0.2, lambda: time.sleep(1))
        # None of the five programs begins its profile, so the limit is the command's error, unless
        # the recorder has found other programs.
        said = self.end(recorder, code=None)
        code = 0 if ": attached, " in said else 1
        self.assertEqual(recorder.returncode, code, said)
        self.assertRegex(said.splitlines()[-1] if code else said,
                         "(?m)^mmtrace: linux.heap: process .* is not profiled: the limit of 5 "
                         "profiles of running processes of one user")


if __name__ == "__main__":
    unittest.main()
