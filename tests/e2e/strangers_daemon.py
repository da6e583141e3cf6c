# SPDX-License-Identifier: Apache-2.0
"""A daemon of root's that strangers can reach."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile

import lib
import states
from protowire import bind

CONFIG = """
buffers { size_kb: 256 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 50 } } }
"""
ENABLE, QUERY_STATE, INITIALIZE, ACTIVATE = 1, 12, 1, 10
# other users are served within this time on a machine under load; the docs give the time at rest
SERVED_S = 10.0


class Daemon:
    """A daemon of root's with folders of its own, which strangers can reach."""

    def __init__(self, test, *options, armed="none", **popen):
        self.test = test
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-strangers-"))
        test.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.root.chmod(0o755)
        self.run_dir, self.state, self.log_path = (self.root / "run", self.root / "state",
                                                   self.root / "log")
        self.argv = [str(lib.MMTRACE), "daemon", "--armed", str(armed), "--kmem-events", "none",
                     "--psi", "none",
                     "--no-perfetto-sockets", "--state-dir", str(self.state), "--run-dir",
                     str(self.run_dir), *options]
        self.env = {**os.environ, "MMTRACE_SOCKETS": str(self.run_dir)}
        self.process = None
        self.popen = popen
        self.start()

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.argv, stderr=log, env=self.env, **self.popen)
        self.test.addCleanup(self.kill, self.process)
        return self

    def kill(self, process):
        if process.poll() is None:
            process.kill()
        process.wait(60)

    def said(self):
        return self.log_path.read_text()

    def ready(self):
        """Waits until the daemon serves: its last socket is there, and answers."""
        lib.wait_for(lambda: self.process.poll() is not None or self.answers(),
                     lambda: f"the daemon: {self.said()}")
        self.test.assertIsNone(self.process.poll(), self.said())
        return self

    def answers(self):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            client.connect(str(self.run_dir / "producer.sock"))
            client.sendall(bind(b"ProducerPort"))
            return b"ActivateTriggers" in client.recv(4096)
        return False

    def status(self):
        """The answer to root's `mmtrace status`; an AssertionError if the daemon does not serve
        root in time."""
        done = lib.run(lib.MMTRACE, "status", env=self.env, timeout_s=SERVED_S)
        self.test.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def rss_kb(self):
        return int(re.search(r"VmRSS:\s+(\d+)", states.proc_text(self.process.pid, "status"))[1])

    def cpu_s(self):
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        return sum(map(int, stat.rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")

    def end(self, timeout_s=30):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def mode(self, path):
        return (self.root / path).stat().st_mode & 0o7777
