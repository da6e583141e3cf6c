# SPDX-License-Identifier: Apache-2.0
"""An armed daemon for a long time, with all that can happen to a daemon, and hostile clients beside
it.

usage: soak.py [--memory-limit SIZE] [SECONDS] [FOLDER]

Runs for SECONDS (default: 3600; a week is 604800) with its files in FOLDER (default: a temporary
folder), and prints a line a minute. Each round has triggers of root, recordings, clones, bugreports
and heap profiles, hostile clients, and once a minute real memory pressure. The exit code is 1 as
soon as memory, descriptors or tracefs instances of the daemon grow, a trigger of root is lost, or a
command of root fails.

With --memory-limit everything runs in a memory cgroup (v1 or v2) of SIZE MiB, 2048 for example. The
pressure is inside the group then, and the rest of the machine does not notice the test.
"""
import argparse
import array
import contextlib
import fcntl
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import lib
import strangers
from protowire import bind, field, invoke

sys.path.insert(0, str(lib.ROOT / "scripts"))
import load  # noqa: E402

PRESSURE_LOCK = "/tmp/mm-pressure.lock"
PRESSURE_EVERY_S = 60
DEAF_EVERY = 3  # rounds: the attack takes seconds, and its user is then refused for a minute
N_SETTLING = 3  # rounds until caches and pools have their size
RSS_GROWTH_KB = 2048  # of a whole run: fragmentation, not a leak of each round
ACTIVATE, INITIALIZE = 10, 1
ARMED = """
unique_session_name: "soak"
buffers { size_kb: 256 fill_policy: RING_BUFFER }
data_sources { config { name: "linux.sys_stats" sys_stats_config { vmstat_period_ms: 500 } } }
data_sources { config { name: "linux.ftrace"
  ftrace_config { ftrace_events: "vmscan/mm_vmscan_kswapd_wake" } } }
trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 86400000
    triggers { name: "soak" stop_delay_ms: 1 } }
bugreport_score: 10
"""
RECORDED = """
buffers { size_kb: 256 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 20 } } }
data_sources { config { name: "linux.process_stats" process_stats_config {
  scan_all_processes_on_start: true } } }
duration_ms: 200
"""


MAPS = """
buffers { size_kb: 256 }
data_sources { config { name: "linux.perf_map" perf_map_config { process_cmdlines: "sleep"
  period_ms: 50 } } }
duration_ms: 200
"""
RESIDENCY = """
buffers { size_kb: 1024 }
data_sources { config { name: "linux.page_residency" page_residency_config { pids: %d pids: %d
  period_ms: 50 } } }
duration_ms: 200
"""


class Failed(AssertionError):
    """Something grew, was lost, or did not work."""


class Soak:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "armed").mkdir()
        (self.folder / "armed" / "soak.cfg").write_text(ARMED)
        (self.folder / "recorded.cfg").write_text(RECORDED)
        (self.folder / "maps.cfg").write_text(MAPS)
        self.sockets = {kind: self.folder / f"{kind.lower()}.sock"
                        for kind in ("CONSUMER", "PRODUCER")}
        self.env = {**os.environ,
                    **{f"PERFETTO_{k}_SOCK_NAME": str(v) for k, v in self.sockets.items()}}
        self.folder.chmod(0o711)
        argv = [lib.MMTRACE, "daemon", "--armed", self.folder / "armed", "--state-dir",
                self.folder / "state",
                "--run-dir", self.folder / "run", "--keep-files", "5"]
        with open(self.folder / "log", "wb") as log:
            self.daemon = subprocess.Popen([str(arg) for arg in argv], stderr=log, env=self.env)
        self.n_rounds = self.n_triggers = self.n_commands = self.n_attacks = self.n_pressure = 0
        self.n_calm = 0  # the number of times that the kernel did not have to reclaim
        self.first = self.device = self.left_out = None
        self.theirs = self.folder / "theirs"
        for folder in (self.theirs, self.theirs / "deaf", self.theirs / "lend"):
            folder.mkdir()
            os.chown(folder, strangers.UID, strangers.UID)
        (self.theirs / "mounted").touch()
        (self.theirs / "fuse").symlink_to("../fuse")
        lib.wait_for(lambda: "armed/soak.cfg: armed" in self.said()
                     or self.daemon.poll() is not None, self.said)

    def said(self):
        return (self.folder / "log").read_text(errors="replace")

    def command(self, *argv):
        """Runs a command of root, which must work whatever strangers do."""
        self.n_commands += 1
        done = lib.run(*argv, env=self.env, timeout_s=120)
        if done.returncode != 0:
            raise Failed(
                f"{[str(arg) for arg in argv]}: exit code {done.returncode}: {done.stderr}")

    def state(self):
        """The figures that must not grow: (KiB of memory, descriptors, tracefs instances,
        threads)."""
        pid = self.daemon.pid
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        instances = list((lib.TRACEFS / "instances").glob(f"mmtrace-{pid}-*"))
        return (int(re.search(r"RssAnon:\s+(\d+)", status)[1]), self.n_descriptors(),
                len(instances),
                int(re.search(r"Threads:\s+(\d+)", status)[1]))

    def n_descriptors(self):
        """The number of descriptors without the pressure file, which is closed while the watch of
        stalls rests."""
        n = 0
        for descriptor in pathlib.Path(f"/proc/{self.daemon.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                n += "/pressure/" not in os.readlink(descriptor)
        return n

    def n_written(self):
        return len(re.findall(r"wrote .*soak-soak-", self.said()))

    # The actions of root.

    def trigger(self):
        before = self.n_written()
        self.command(lib.MMTRACE, "trigger", "soak")
        self.n_triggers += 1
        lib.wait_for(lambda: self.n_written() > before,
                     lambda: f"trigger {self.n_triggers} is lost:\n{self.said()[-2000:]}")

    def record(self):
        self.command(lib.MMTRACE, "record", "-q", "-c", self.folder / "recorded.cfg", "-o",
                     self.folder / "recorded")
        lib.decode(self.folder / "recorded")

    def clone(self):
        self.command(lib.MMTRACE, "clone", "soak", "-o", self.folder / "cloned")
        lib.decode(self.folder / "cloned")

    def bugreport(self):
        self.command(lib.MMTRACE, "bugreport", "-q", "-o", self.folder / "report.zip")

    def heap(self):
        program = lib.BUILD / "tests" / "tools" / "heap_truth"
        self.command(lib.MMTRACE, "heap", "-q", "-o", self.folder / "heap", "--", program, "1",
                     "500")

    def status(self):
        self.command(lib.MMTRACE, "status")

    # The actions of strangers, as a user without rights.

    def attack(self, act, *arguments, until):
        """Runs a stranger until it says a line of `until`; then root asks for the status."""
        stranger = strangers.Stranger(act, *arguments)
        try:
            while stranger.hear() not in until:
                pass
            self.n_attacks += 1
            self.status()
        finally:
            stranger.end()

    def noise(self):
        self.attack(make_noise, self.n_rounds, *(str(self.sockets[kind]) for kind
                                                 in ("PRODUCER", "CONSUMER")), until=("done",))

    def blocking_descriptor(self):
        """H1: the file of a FUSE file system that never answers a close, for the producer
        socket."""
        with self.fuse():
            self.attack(strangers.pass_fuse, self.device, self.theirs / "mounted",
                        self.sockets["PRODUCER"], b"ProducerPort",
                        invoke(2, INITIALIZE, field(3, b"x")), (strangers.FLUSH,),
                        until=("sent", "the kernel refuses the descriptor"))

    def deaf_folder(self):
        """H2: a process whose /tmp, an overlay over FUSE, never answers for perf maps, while root
        records them."""
        with self.fuse():
            thief = strangers.start_program("deaf", self.theirs / "deaf", "/tmp", "perf-",
                                            "/bin/sleep", "60", stderr=subprocess.DEVNULL)
            try:
                strangers.hear_program(thief)
                self.n_attacks += 1
                self.command(lib.MMTRACE, "record", "-q", "-c", self.folder / "maps.cfg", "-o",
                             self.folder / "maps")
                lib.decode(self.folder / "maps")
            finally:
                self.end_program(thief)

    def lent_file(self):
        """A process maps a file of an overlay over FUSE that never answers, while root records the
        page residency of the files of this process and of the daemon."""
        with self.fuse():
            thief = strangers.start_program("lend", self.theirs / "lend", stderr=subprocess.DEVNULL)
            try:
                borrower = int(strangers.hear_program(thief).split()[1])
                (self.folder / "residency.cfg").write_text(RESIDENCY % (borrower, self.daemon.pid))
                self.n_attacks += 1
                self.command(lib.MMTRACE, "record", "-q", "-c", self.folder / "residency.cfg", "-o",
                             self.folder / "residency")
                if not lib.of_kind(lib.decode(self.folder / "residency"), "page_residency"):
                    raise Failed("the residency of the files of the daemon is not recorded")
            finally:
                self.end_program(thief)

    def held_map(self):
        """A process that never releases the lock of its memory map, while root records the names
        of all processes."""
        with self.fuse():
            stranger = strangers.Stranger(strangers.hold_memory_map, self.device,
                                          self.theirs / "mounted")
            try:
                stranger.hear()
                self.n_attacks += 1
                self.record()
            finally:
                stranger.end()

    @staticmethod
    def end_program(process):
        """Ends the stranger and its children: the end of its FUSE file system frees each process
        that waits for an answer."""
        process.kill()
        process.wait()
        process.stdout.close()

    @contextlib.contextmanager
    def fuse(self):
        """Leaves an attack out if the machine does not allow it (no FUSE, no user namespaces), and
        keeps the reason."""
        try:
            self.device = self.device or strangers.fuse_device(self.folder)
            yield
        except unittest.SkipTest as reason:
            self.left_out = str(reason)

    def pressure(self):
        # Other programs may empty the page cache meanwhile.
        if any(self.press() for _ in range(3)):
            self.n_pressure += 1
        else:
            self.n_calm += 1

    def press(self):
        """Returns False if this process is in a memory cgroup in which the kernel did not have to
        reclaim."""
        before = n_group_reclaims()
        with contextlib.ExitStack() as stack:
            if before is None:
                fcntl.flock(stack.enter_context(open(PRESSURE_LOCK, "a")), fcntl.LOCK_EX)
            with contextlib.suppress(OSError):
                load.pressure("/var/tmp", limit_s=20 if before is None else 120, n_wanted=5)
        return before is None or n_group_reclaims() > before

    def round(self):
        steps = [self.trigger, self.record, self.clone, self.bugreport, self.heap, self.status,
                 self.noise, self.noise,
                 self.blocking_descriptor, self.held_map, self.lent_file]
        if self.n_rounds % DEAF_EVERY == 0:
            steps.append(self.deaf_folder)
        random.Random(self.n_rounds).shuffle(steps)
        for step in steps:
            step()
        self.n_rounds += 1
        self.check()

    def check(self):
        if self.daemon.poll() is not None:
            raise Failed(f"the daemon has ended: {self.said()[-2000:]}")
        if self.n_rounds < N_SETTLING:
            return
        self.first = self.first or self.settled()
        try:
            lib.wait_for(lambda: self.fits(self.state()), "", 30)
        except AssertionError:
            raise Failed(
                f"memory, descriptors, instances, threads: {self.first}, now {self.state()}, "
                f"after {self.n_rounds} rounds") from None

    def settled(self):
        """The state after the connections of a round are closed."""
        last = None
        for _ in range(50):
            now = self.state()
            if now == last:
                break
            last = now
            time.sleep(0.2)
        return now

    def fits(self, now):
        return now[0] <= self.first[0] + RSS_GROWTH_KB and all(
            a <= b for a, b in zip(now[1:], self.first[1:]))

    def line(self):
        return (f"{self.n_rounds} rounds, {self.n_commands} commands, {self.n_triggers} "
                f"triggers of root, none lost, {self.n_attacks} "
                f"attacks{f' (left out: {self.left_out})' if self.left_out else ''}, "
                f"{self.n_pressure} times pressure; KiB, descriptors, instances, "
                f"threads: {self.first} at first, {self.state()} now")

    def end(self):
        if self.daemon.poll() is None:
            self.daemon.terminate()
            try:
                self.daemon.wait(60)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
        self.daemon.wait()
        left = list((lib.TRACEFS / "instances").glob(f"mmtrace-{self.daemon.pid}-*"))
        if self.daemon.returncode != 0 or left:
            raise Failed(
                f"exit code {self.daemon.returncode}, left in tracefs: {left}: "
                f"{self.said()[-2000:]}")


# The actions of one stranger, as a user without rights, at sockets of the daemon.

def make_noise(voice, seed, producer, consumer):
    """Sends many triggers, half a frame, noise, expressions and descriptors, and keeps connections
    open."""
    chance, stay = random.Random(seed), []
    for path, service in ((producer, b"ProducerPort"), (consumer, b"ConsumerPort")):
        for data in (b"\xff" * 4, b"\0\0\0\x80", b"\x40\0\0", b"",
                     bind(service) + b"\x05\0\0\0" + b"\xff" * 5,
                     chance.randbytes(4000), b"\0" * 100000, bind(service) + invoke(2, 999),
                     bind(service) + invoke(2, 1, field(1, b"x" * 60000)),
                     bind(service) + invoke(2, 3, field(1, b"+" * 40))):
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(5)
            with contextlib.suppress(OSError):
                client.connect(path)
                client.sendall(data)
            stay.append(client)
        client = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            client.connect(path)
            client.sendmsg([bind(service)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                              array.array("i", [0, 1, 2] * 3))])
        stay.append(client)
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(5)
    with contextlib.suppress(OSError):
        client.connect(producer)
        client.sendall(bind(b"ProducerPort"))
        for number in range(500):
            client.sendall(invoke(number + 2, ACTIVATE, field(1, b"soak") + field(1, b"other")))
    voice.say("done")


def n_group_reclaims():
    """How often the memory cgroup of this process was full; None if the group has no limit."""
    if load.group_bytes() is None or load.group_bytes() >= load.machine_bytes():
        return None
    return n_reclaims(next(folder for folder, _ in load.group_folders()))


def n_reclaims(folder):
    with contextlib.suppress(OSError):  # v1
        return int((folder / "memory.failcnt").read_text())
    return int(re.search(r"^max (\d+)", (folder / "memory.events").read_text(), re.M)[1])


def run(seconds, folder, say=print):
    """Raises Failed, or returns the last line."""
    soak = Soak(folder)
    end = said = pressed = time.monotonic()
    end += seconds
    try:
        while time.monotonic() < end or soak.n_rounds <= N_SETTLING:
            soak.round()
            if time.monotonic() - pressed > PRESSURE_EVERY_S or not soak.n_pressure:
                soak.pressure()
                pressed = time.monotonic()
            if time.monotonic() - said > 60:
                say(soak.line())
                said = time.monotonic()
        if not soak.left_out and "a look-up or read of a file of user" not in soak.said():
            raise Failed(
                "no file of the stranger kept the daemon's helper waiting: the attack has no "
                "effect")
        if soak.n_calm > soak.n_pressure:
            raise Failed(
                f"the kernel did not have to reclaim in the memory cgroup {soak.n_calm} of "
                f"{soak.n_calm + soak.n_pressure} times")
        last = soak.line()
    finally:
        soak.end()
    return last


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=int, default=3600)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--memory-limit", type=int, metavar="MIB")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if options.memory_limit:
            try:
                stack.enter_context(lib.memory_cgroup(options.memory_limit << 20))()
            except unittest.SkipTest as reason:
                sys.exit(f"soak: --memory-limit: {reason}")
        folder = options.folder or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="mmtrace-soak-", dir="/var/tmp"))
        try:
            print(run(options.seconds, folder, lambda line: print(line, flush=True)))
        except Failed as error:
            sys.exit(f"soak: {error}")


if __name__ == "__main__":
    main()
