# SPDX-License-Identifier: Apache-2.0
"""The daemon's files, the services that clients trust, and a daemon that hangs
(docs/threat-model.md)."""
import array
import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import lib
import states
import strangers
from protowire import field, fields, frame
from strangers_daemon import CONFIG, Daemon, ENABLE, QUERY_STATE


@lib.needs_root
class Files(unittest.TestCase):
    """Files that root's programs write belong to root alone."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mmtrace-files-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        before = os.umask(0o022)
        self.addCleanup(os.umask, before)
        (self.dir / "config").write_text(CONFIG + "duration_ms: 200\n")

    def test_names_that_a_stranger_has_taken(self):
        """In a folder like /tmp, a file of a stranger does not get root's trace. A link leads root
        nowhere in any folder. The kernel may refuse files and links in /tmp by itself
        (fs.protected_regular)."""
        everybodys, theirs, mine = self.dir / "tmp", self.dir / "theirs", self.dir / "mine"
        everybodys.mkdir()
        everybodys.chmod(0o1777)
        theirs.mkdir()
        os.chown(theirs, strangers.UID, strangers.UID)
        mine.write_text("mine")
        taken, links = everybodys / "taken", (everybodys / "link", theirs / "link")
        taken.write_text("theirs")
        taken.chmod(0o666)
        for link in links:
            link.symlink_to(mine)
        for path in (taken, *links):
            os.chown(path, strangers.UID, strangers.UID, follow_symlinks=False)
            done = lib.run(lib.MMTRACE, "record", "--no-daemon", "-c", self.dir / "config", "-o",
                           path)
            self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual((taken.read_text(), mine.read_text()), ("theirs", "mine"))

    def test_a_link_in_the_middle_of_the_path(self):
        """A folder of the path is a link that leads root into a folder of root's. A link of root's
        own is followed."""
        theirs, roots, own = self.dir / "theirs", self.dir / "roots", self.dir / "own"
        for folder in (theirs, roots):
            folder.mkdir()
        os.chown(theirs, strangers.UID, strangers.UID)
        self.dir.chmod(0o755)
        own.symlink_to(roots)
        strangers.make_link(roots, theirs / "dir")
        (roots / "trace").write_text("mine")
        options = ("--no-daemon", "-c", self.dir / "config", "-o")
        done = lib.run(lib.MMTRACE, "record", *options, theirs / "dir" / "trace")
        self.assertEqual((done.returncode, (roots / "trace").read_bytes()), (1, b"mine"))
        self.assertIn(f"the folder {theirs}/dir is a link of user {strangers.UID}", done.stderr)
        done = lib.run(lib.MMTRACE, "record", *options, own / "trace")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual((roots / "trace").read_bytes(), b"mine")

    def test_lock_of_the_daemon(self):
        """H5: a user who can open the lock file can keep the daemon from starting."""
        daemon = Daemon(self).ready()
        self.assertEqual(daemon.end(), 0)

        def hold_lock(voice, path):
            try:
                fd = os.open(path, os.O_RDONLY)
                fcntl.flock(fd, fcntl.LOCK_EX)
            except PermissionError:
                voice.say("refused")
                return
            voice.say("held")
            voice.stay()

        stranger = strangers.Stranger(hold_lock, daemon.run_dir / "daemon.lock")
        self.addCleanup(stranger.end)
        heard = stranger.hear()
        daemon.start()
        lib.wait_for(lambda: daemon.answers() or daemon.process.poll() is not None,
                     "the daemon's start or end")
        self.assertIsNone(daemon.process.poll(), f"{heard}: {daemon.said()}")
        self.assertEqual(heard, "refused")
        self.assertEqual(daemon.mode("run/daemon.lock"), 0o600)

    def test_folders_of_the_daemon(self):
        daemon = Daemon(self).ready()
        # the sockets can be reached, and nothing can be listed
        self.assertEqual(daemon.mode("run"), 0o711)
        self.assertEqual(daemon.mode("state"), 0o700)
        daemon.end()
        os.chmod(daemon.run_dir, 0o777)  # as an older daemon or a careless user left it
        daemon.start().ready()
        self.assertEqual(daemon.mode("run"), 0o711)

    def test_folder_of_a_stranger(self):
        """The daemon does not work in a folder whose owner can put other files in the place of its
        own."""
        daemon = Daemon(self).ready()
        daemon.end()
        os.chown(daemon.run_dir, strangers.UID, strangers.UID)
        daemon.start()
        self.assertEqual(daemon.process.wait(60), 1)
        self.assertIn(f"the folder belongs to user {strangers.UID}", daemon.said())

    def test_traces(self):
        """M3: a trace shows the activity of all processes, so only root may read the trace."""
        daemon = Daemon(self).ready()
        for options, env in ((("--no-daemon",), os.environ), ((), daemon.env)):
            out = self.dir / f"trace{len(options)}"
            done = lib.run(lib.MMTRACE, "record", *options, "-c", self.dir / "config", "-o", out,
                           env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(out.stat().st_mode & 0o777, 0o600)

    def test_armed_traces(self):
        armed = self.dir / "armed"
        armed.mkdir()
        (armed / "a.cfg").write_text(CONFIG + """trigger_config { trigger_mode: START_TRACING
            trigger_timeout_ms: 600000
            triggers { name: "now" stop_delay_ms: 100 } }""")
        daemon = Daemon(self, armed=armed).ready()
        lib.wait_for(lambda: "armed/a.cfg: armed" in daemon.said(), daemon.said)
        self.assertEqual(lib.run(lib.MMTRACE, "trigger", "now", env=daemon.env).returncode, 0)
        [trace] = lib.wait_for(lambda: list((daemon.state / "traces").glob("*.pftrace")),
                               daemon.said)
        self.assertEqual(trace.stat().st_mode & 0o777, 0o600)
        self.assertEqual(trace.parent.stat().st_mode & 0o777, 0o700)

    @lib.needs_program("strace")
    def test_data_are_on_the_disk_before_the_name(self):
        """After a reset no name may lead to an empty file."""
        armed = self.dir / "armed"
        armed.mkdir()
        (armed / "a.cfg").write_text(CONFIG + """trigger_config { trigger_mode: START_TRACING
            trigger_timeout_ms: 600000
            triggers { name: "now" stop_delay_ms: 100 max_per_24_h: 5 } }""")
        calls = self.dir / "calls"
        daemon = Daemon(self, armed=armed).ready()
        lib.wait_for(lambda: "armed/a.cfg: armed" in daemon.said(), daemon.said)
        threads = [("-p", task.name)
                   for task in pathlib.Path(f"/proc/{daemon.process.pid}/task").iterdir()]
        tracer = subprocess.Popen(["strace", "-y", "-o", calls, "-e",
                                   "trace=fsync,fdatasync,rename,renameat2",
                                   *(word for option in threads for word in option)],
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(tracer.wait)
        self.addCleanup(tracer.terminate)
        lib.wait_for(lambda: not any("TracerPid:\t0" in text for text in
                                     states.texts_of_tasks(daemon.process.pid, "status")),
                     "strace")
        self.assertEqual(lib.run(lib.MMTRACE, "trigger", "now", env=daemon.env).returncode, 0)
        lines = lib.wait_for(lambda: (lambda t: t if re.search(r'trigger_history".* = 0', t)
                                      and re.search(r'\.pftrace".* = 0', t)
                                      else "")(calls.read_text()),
                             lambda: calls.read_text() + daemon.said()).splitlines()
        for name, while_synced in ((r"trigger_history\.new", r"trigger_history\.new"),
                                   (r"\.pftrace\.part", r"/traces/[^>]+")):
            [renamed] = [i for i, line in enumerate(lines)
                         if re.search(rf'rename\w*\(.*{name}"', line)]
            synced = [i for i, line in enumerate(lines)
                      if re.search(rf"f(data)?sync\(.*{while_synced}>", line)]
            self.assertTrue(any(i < renamed for i in synced), "\n".join(lines))


@lib.needs_root
class Impostor(unittest.TestCase):
    """H6: a stranger serves where a client of root's looks for the tracing service."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mmtrace-impostor-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.dir.chmod(0o777)
        (self.dir / "config").write_text(CONFIG + "duration_ms: 300 write_into_file: true\n")
        self.env = {**os.environ, "PERFETTO_CONSUMER_SOCK_NAME": str(self.dir / "consumer"),
                    "PERFETTO_PRODUCER_SOCK_NAME": str(self.dir / "producer")}

    @staticmethod
    def serve(voice, path):
        """Speaks Perfetto's protocol until it has the descriptor of the output file; then writes
        into the file."""
        methods = (
            "EnableTracing DisableTracing ReadBuffers FreeBuffers Flush StartTracing "
            "ChangeTraceConfig Detach Attach GetTraceStats ObserveEvents QueryServiceState "
            "QueryCapabilities SaveTraceForBugreport CloneSession").split()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        voice.say("listens")

        def exactly(client, size, fds):
            data = b""
            while len(data) < size:
                part, ancillary, _, _ = client.recvmsg(size - len(data), 256)
                for level, kind, passed in ancillary:
                    if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                        fds.extend(array.array("i", passed[:len(passed) // 4 * 4]))
                if not part:
                    raise ConnectionError
                data += part
            return data

        while True:
            client, _ = listener.accept()
            fds = []
            with contextlib.suppress(ConnectionError, OSError), client:
                while True:
                    request = fields(exactly(client,
                                             struct.unpack("<I", exactly(client, 4, fds))[0], fds))
                    number = request.get(2, 0)
                    if 3 in request:
                        names = b"".join(field(3, field(1, i + 1) + field(2, n.encode()))
                                         for i, n in enumerate(methods))
                        client.sendall(
                            frame(field(2, number) + field(4, field(1, 1) + field(2, 1) + names)))
                        continue
                    method = fields(request.get(5, b"")).get(2, 0)
                    sources = b"".join(field(2, field(1, field(1, n)))
                                       for n in (b"linux.sys_stats",))
                    answer = field(1, sources) if method == QUERY_STATE else field(
                        1, 1) if method == ENABLE else b""
                    if fds:
                        os.write(fds[0], b"a stranger was here")
                        voice.say("wrote")
                    client.sendall(frame(field(2, number)
                                         + field(6, field(1, 1) + field(2, 0) + field(3, answer))))

    def test_no_descriptor_for_a_stranger(self):
        stranger = strangers.Stranger(self.serve, self.dir / "consumer")
        self.addCleanup(stranger.end)
        self.assertEqual(stranger.hear(), "listens")
        trace = self.dir / "trace"
        done = lib.run(lib.MMTRACE, "record", "-c", self.dir / "config", "-o", trace, env=self.env)
        self.assertNotIn(b"a stranger was here", trace.read_bytes())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"user {strangers.UID} serves it", done.stderr)
        self.assertTrue(lib.of_kind(lib.decode(trace), "sys_stats"))  # without the service

    def test_nothing_is_believed(self):
        stranger = strangers.Stranger(self.serve, self.dir / "consumer")
        self.addCleanup(stranger.end)
        stranger.hear()
        for argv in (("status",), ("clone", "x", "-o", self.dir / "clone"),
                     ("record", "--is_detached", "x")):
            done = lib.run(lib.MMTRACE, *argv, env=self.env)
            self.assertEqual(done.returncode, 1, (argv, done.stdout, done.stderr))
            self.assertIn(f"user {strangers.UID} serves it", done.stderr)

    def test_a_trusted_user(self):
        """A user who trusts another user's service says so in MMTRACE_SERVER_UID."""
        stranger = strangers.Stranger(self.serve, self.dir / "consumer")
        self.addCleanup(stranger.end)
        stranger.hear()
        done = lib.run(lib.MMTRACE, "status",
                       env={**self.env, "MMTRACE_SERVER_UID": str(strangers.UID)})
        self.assertEqual(done.returncode, 0, done.stderr)


HANGS = """
#define _GNU_SOURCE
#include <sys/socket.h>
#include <sys/syscall.h>
#include <stdlib.h>
#include <unistd.h>
int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    const char *at = getenv("HANG_AT");
    while (at && access(at, F_OK) == 0)
        sleep(600);
    return (int)syscall(SYS_accept4, fd, address, size, flags);
}
"""


@lib.needs_root
class Watchdog(unittest.TestCase):
    """A loop that hangs ends the daemon; SIGTERM ends the daemon in any case."""

    def setUp(self):
        os.environ["MMTRACE_WATCHDOG_MS"] = "3000"
        self.addCleanup(os.environ.pop, "MMTRACE_WATCHDOG_MS")

    def slow_daemon(self):
        """A daemon in which one call of the loop never returns."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-watchdog-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "hang.c").write_text(HANGS)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "hang.so", folder / "hang.c"],
                       check=True)
        os.environ["LD_PRELOAD"], os.environ["HANG_AT"] = str(folder / "hang.so"), str(
            folder / "now")
        try:
            daemon = Daemon(self).ready()
        finally:
            del os.environ["LD_PRELOAD"], os.environ["HANG_AT"]
        (folder / "now").touch()
        with socket.socket(socket.AF_UNIX) as client:  # accept4() hangs
            client.connect(str(daemon.run_dir / "producer.sock"))
        return daemon

    @lib.needs_program("cc")
    def test_loop_that_hangs(self):
        if lib.is_sanitized():
            self.skipTest("a sanitizer wants to be loaded first")
        daemon = self.slow_daemon()
        self.assertEqual(daemon.process.wait(30), -signal.SIGKILL)
        self.assertIn("its loop hangs", daemon.said())
        del daemon.env["LD_PRELOAD"]
        daemon.start().ready()  # nothing prevents the next daemon

    @lib.needs_program("cc")
    def test_sigterm_to_a_loop_that_hangs(self):
        if lib.is_sanitized():
            self.skipTest("a sanitizer wants to be loaded first")
        daemon = self.slow_daemon()
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.process.wait(30), -signal.SIGKILL)

    def test_the_watchdog_does_not_delay_the_end(self):
        os.environ["MMTRACE_WATCHDOG_MS"] = "60000"
        daemon = Daemon(self).ready()
        daemon.status()
        began = time.monotonic()
        self.assertEqual(daemon.end(), 0)
        self.assertLess(time.monotonic() - began, 5)

    def test_idle(self):
        """No thread wakes up while nothing happens."""
        daemon = Daemon(self).ready()
        lib.wait_for(lambda: states.sleeps(daemon.process.pid, 2), "two seconds without a wake-up",
                     20)
        daemon.status()


if __name__ == "__main__":
    unittest.main()
