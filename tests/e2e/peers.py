# SPDX-License-Identifier: Apache-2.0
"""The tracing services that commands are tested with: mmtrace daemon, and Perfetto's own.

Tests look for Perfetto in PATH, or in a root file system of its own that PERFETTO_ROOT names. Each
service has sockets of its own, in a folder that is made for the test.
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import lib

START_S = 60
PERFETTO_PROGRAMS = ("traced", "traced_probes", "perfetto")


def find_perfetto():
    """(root or None, {program: path}), or None where Perfetto is not installed."""
    root = os.environ.get("PERFETTO_ROOT", "")
    places = "/usr/bin:/usr/sbin:/bin:/sbin" if root else os.environ["PATH"] + ":/usr/sbin"
    programs = {}
    for program in PERFETTO_PROGRAMS:
        for place in places.split(":"):
            if os.access(f"{root}{place}/{program}", os.X_OK):
                programs.setdefault(program, f"{place}/{program}")
    return (root or None, programs) if len(programs) == len(PERFETTO_PROGRAMS) else None


class Service:
    """The part that both services share: a folder, its sockets, the processes. Use as a context
    manager."""

    name = None

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-peer-"))
        self.processes = []
        self.env = dict(os.environ, PERFETTO_CONSUMER_SOCK_NAME=str(self.dir / "consumer"),
                        PERFETTO_PRODUCER_SOCK_NAME=str(self.dir / "producer"))

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def spawn(self, argv, **options):
        log = open(self.dir / f"log{len(self.processes)}", "wb")
        with log:
            process = subprocess.Popen([str(a) for a in argv], stdout=log, stderr=log, env=self.env,
                                       **options)
        self.processes.append(process)
        return process

    def log(self):
        return "".join(p.read_text(errors="replace") for p in sorted(self.dir.glob("log*")))

    def wait_until(self, condition, what):
        deadline = time.monotonic() + START_S
        while not condition():
            dead = [p.args for p in self.processes if p.poll() is not None]
            if dead or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: {what}: {dead}\n{self.log()}")
            time.sleep(0.05)

    def answers(self):
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.env["PERFETTO_CONSUMER_SOCK_NAME"]) == 0

    def stop(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes):
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class Daemon(Service):
    """mmtrace daemon with nothing armed and no watch on the kernel."""

    name = "mmtrace daemon"

    def start(self):
        self.spawn([lib.MMTRACE, "daemon", "--armed", "none", "--kmem-events", "none",
                    "--state-dir", self.dir / "state", "--run-dir", self.dir / "run"])
        self.wait_until(self.answers, "does not answer")


class Traced(Service):
    """traced and traced_probes. If they have a root of their own, the folder is mounted there."""

    name = "traced"

    def __init__(self, root, programs):
        super().__init__()
        self.root, self.programs = root, programs

    def argv(self, program, *arguments):
        argv = [self.programs[program], *map(str, arguments)]
        if not self.root:
            return argv
        mounts = "".join(f'mount --rbind {d} "$0{d}" && ' for d in ("/proc", "/sys", "/dev"))
        script = f'{mounts} mkdir -p "$0{self.dir}" && mount --bind {self.dir} "$0{self.dir}" && ' \
                 'exec chroot "$0" "$@"'
        return ["unshare", "--mount", "sh", "-c", script, self.root, *argv]

    def start(self):
        self.spawn(self.argv("traced"))
        self.wait_until(self.answers, "does not answer")
        self.spawn(self.argv("traced_probes"))
        self.wait_until(self.has_probes, "has no data sources")

    def has_probes(self):
        done = lib.run(lib.MMTRACE, "status", "--json", env=self.env)
        return '"linux.sys_stats"' in done.stdout

    def stop(self):
        super().stop()
        if self.root:
            shutil.rmtree(f"{self.root}{self.dir}", ignore_errors=True)
