# SPDX-License-Identifier: Apache-2.0
"""The shipped units under a real systemd, which is process 1 of its own namespaces.

The manager sees only the units of the test, so it touches nothing else of the machine.
"""
import contextlib
import grp
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import lib
import states
import strangers
from test_heap import HELPER

SYSTEMD = next((path for path in ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")
                if os.path.exists(path)), None)
TARGETS = ("sysinit", "basic", "shutdown", "sockets", "local-fs", "multi-user", "umount", "test")
ARMED = """
unique_session_name: "armed"
buffers { size_kb: 1024 fill_policy: RING_BUFFER }
data_sources { config { name: "linux.sys_stats" sys_stats_config { vmstat_period_ms: 100 } } }
trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 86400000
    triggers { name: "test" stop_delay_ms: 1 } }
"""
RECORDED = """
buffers { size_kb: 8192 }
duration_ms: 1500
data_sources { config { name: "linux.sys_stats" sys_stats_config { vmstat_period_ms: 100
  psi_period_ms: 100 } } }
data_sources { config { name: "linux.process_stats" process_stats_config {
    scan_all_processes_on_start: true proc_stats_poll_ms: 500 scan_smaps_rollup: true } } }
data_sources { config { name: "linux.ftrace" ftrace_config { ftrace_events: "sched/sched_switch"
  symbolize_ksyms: true } } }
data_sources { config { name: "linux.page_residency" page_residency_config { paths: "%s"
  period_ms: 500 } } }
data_sources { config { name: "linux.system_info" } }
"""
STACKS = """
buffers { size_kb: 8192 }
duration_ms: 1000
data_sources { config { name: "linux.system_info" } }
data_sources { config { name: "linux.perf" perf_event_config {
    timebase { counter: SW_CPU_CLOCK frequency: 100 }
    callstack_sampling { kernel_frames: true user_frames: UNWIND_FRAME_POINTER } } } }
"""

# Arguments: the folder of the test, the manager.
MACHINE = """
set -e
dir=$1 manager=$2
mount --make-rprivate /
mkdir $dir/cgroup
mount -t cgroup2 none $dir/cgroup
mkdir $dir/cgroup/mmtrace-test-$$
echo $$ > $dir/cgroup/mmtrace-test-$$/cgroup.procs
unshare --pid --fork --kill-child --mount --uts --ipc --net --cgroup sh -ec '
    dir=$1 manager=$2
    mount -t proc proc /proc
    mount --bind /proc/sys /proc/sys
    mount -o remount,bind,ro /proc/sys
    mount -t sysfs sys /sys
    mount -t tracefs tracefs /sys/kernel/tracing
    mount -t cgroup2 cgroup /sys/fs/cgroup
    mkdir $dir/dev
    mount -t tmpfs -o mode=755 dev $dir/dev
    for name in null zero full random urandom tty; do
        touch $dir/dev/$name
        mount --bind /dev/$name $dir/dev/$name
    done
    mkdir $dir/dev/pts $dir/dev/shm
    ln -s /proc/self/fd $dir/dev/fd
    mount -t devpts -o newinstance,ptmxmode=0666 pts $dir/dev/pts
    ln -s pts/ptmx $dir/dev/ptmx
    mount --rbind $dir/dev /dev
    mount -t tmpfs -o mode=755 run /run
    mount -t tmpfs -o mode=755 state /var/lib
    exec env -i container=test PATH="$PATH" SYSTEMD_UNIT_PATH=$dir/units \\
        SYSTEMD_GENERATOR_PATH=/nowhere \\
        setpriv --bounding-set=-sys_module,-sys_boot,-sys_time \\
        $manager --unit=test.target --log-target=console --show-status=0
' sh $dir $manager || true
echo $$ > $dir/cgroup/cgroup.procs
find $dir/cgroup/mmtrace-test-$$ -depth -type d -exec rmdir {} +
"""


class Machine:
    """A running manager with the units. Its log is `log`; the daemon's log is `daemon.log`."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-systemd-", dir="/var/tmp"))
        self.dir.chmod(0o755)
        self.process = None
        units = self.dir / "units"
        (units / "mmtrace.service.d").mkdir(parents=True)
        for name in TARGETS:
            (units / f"{name}.target").write_text("[Unit]\nDefaultDependencies=no\n")
        text = (lib.BUILD / "configs" / "mmtrace.service").read_text()
        (units / "mmtrace.service").write_text(
            re.sub(r"(?m)^ExecStart=.*", f"ExecStart={lib.MMTRACE} daemon --armed {self.dir}/armed",
                   text))
        (units / "mmtrace.service.d" / "log.conf").write_text(
            f"[Service]\nStandardError=append:{self.dir}/daemon.log\n")
        for unit in (lib.ROOT / "configs" / "systemd").glob("*.socket"):
            shutil.copy(unit, units)
        (self.dir / "armed").mkdir()
        (self.dir / "armed" / "armed.cfg").write_text(ARMED)

    def boot(self):
        with open(self.dir / "log", "wb") as log:
            self.process = subprocess.Popen(["unshare", "--mount", "sh", "-c", MACHINE, "sh",
                                             self.dir, SYSTEMD], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)
        lib.wait_for(lambda: self.process.poll() is not None or self.is_up(), self.said)
        if self.process.poll() is not None:
            raise unittest.SkipTest(
                f"systemd cannot be process 1 of namespaces here: {self.said()[-300:]}")

    def is_up(self):
        return self.manager() and self.run("systemctl", "is-active",
                                           "test.target").stdout == "active\n"

    @staticmethod
    def children(pid):
        with contextlib.suppress(OSError):
            return [int(word) for word
                    in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return []

    def manager(self):
        """The pid of the manager, seen from outside."""
        for inner in self.children(self.process.pid):  # unshare --fork
            for pid in self.children(inner):
                if (pathlib.Path(f"/proc/{pid}/comm").read_text() == "systemd\n"):
                    return pid
        return None

    def said(self):
        return (self.dir / "log").read_text(errors="replace")

    def log(self):
        with contextlib.suppress(FileNotFoundError):
            return (self.dir / "daemon.log").read_text(errors="replace")
        return ""

    def run(self, *argv):
        """Runs a command in the namespaces of the manager."""
        return lib.run("nsenter", "--target", str(self.manager()), "--all", *argv,
                       env={"PATH": os.environ["PATH"]}, timeout_s=60)

    def systemctl(self, *words):
        done = self.run("systemctl", *words)
        why = self.run("systemctl", "show", "--property=Result,ExecMainStatus",
                       "mmtrace.service").stdout
        assert done.returncode == 0, f"systemctl {words}: {done.stderr}{why}{self.log()[-2000:]}"

    def property(self, name):
        return self.run("systemctl", "show", "--property", name, "--value",
                        "mmtrace.service").stdout.strip()

    def end(self):
        if self.process and self.process.poll() is None:
            self.run("systemctl", "stop", "mmtrace.service")  # leaves nothing in the kernel
            os.kill(self.manager() or self.process.pid, signal.SIGKILL)
            self.process.wait(30)
        shutil.rmtree(self.dir, ignore_errors=True)


@lib.needs_root
@lib.needs_namespaces
@lib.needs_program("nsenter", "setpriv")
@unittest.skipUnless(SYSTEMD, "systemd is not installed (scripts/install-deps test)")
class Units(unittest.TestCase):
    def setUp(self):
        if lib.is_sanitized():
            self.skipTest("the unit's limits are not made for sanitizers")
        lib.skip_in_chroot(self)
        self.machine = Machine()
        self.addCleanup(self.machine.end)

    def start(self, *units, addition=False):
        if addition:
            shutil.copy(lib.ROOT / "configs" / "systemd" / "heap.conf",
                        self.machine.dir / "units" / "mmtrace.service.d")
        self.machine.boot()
        self.machine.systemctl("start", *(units or ["mmtrace.service"]))

    def record(self, config):
        """The answer of `record` to the config in the service's machine, and the packets."""
        path = self.machine.dir / "config"
        path.write_text(config)
        done = self.machine.run(lib.MMTRACE, "record", "--no-verdict", "-c", path, "-o",
                                self.machine.dir / "trace")
        self.assertNotIn("in this process", done.stderr)
        return done, lib.decode(self.machine.dir / "trace")

    def sleeper(self, uid):
        """Starts a program of the user. Returns its pids inside and outside of the namespaces."""
        process = subprocess.Popen(["nsenter", "--target", str(self.machine.manager()), "--all",
                                    "setpriv", f"--reuid={uid}", f"--regid={uid}",
                                    "--clear-groups", "sleep", "60"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        lib.wait_for(lambda: [pid for pid in self.machine.children(process.pid)
                              if states.proc_text(pid, "comm") == "sleep\n"], "the program")
        [pid] = self.machine.children(process.pid)
        return int(states.proc_text(pid,
                                    "status").split("NSpid:")[1].split("\n")[0].split()[-1]), pid

    def heap(self, uid, duration_ms):
        inside, outside = self.sleeper(uid)
        done, _ = self.record(
            f'buffers {{ size_kb: 1024 }} duration_ms: {duration_ms} data_sources {{ config '
            f'{{ name: "linux.heap" heapprofd_config {{ pid: {inside} sampling_interval_bytes: '
            f'4096 }} }} }}')
        return done, "libmmheap" in states.proc_text(outside, "maps")

    def traces(self):
        return self.machine.run("sh", "-c", "ls /var/lib/mmtrace/traces/*.pftrace").stdout.split()

    def test_what_the_unit_records(self):
        """Every source records, except heaps and files of other users' programs. The daemon has no
        complaint."""
        self.start()
        data = self.machine.dir / "data"
        data.write_bytes(bytes(1 << 20))
        done, packets = self.record(RECORDED % data)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (0, 1), done.stderr)
        self.assertNotRegex(done.stderr, "events? lost")
        for kind in ("sys_stats", "process_tree", "process_stats", "ftrace_events",
                     "page_residency", "cpu_info"):
            self.assertTrue(lib.of_kind(packets, kind), kind)
        smaps = [process for packet in lib.of_kind(packets, "process_stats")
                 for process in packet.all("process_stats", "processes")
                 if any(name.startswith("smr_") for name in process)]
        self.assertTrue(smaps)
        # Lines about pressure of the machine, and about files that killed recorders left behind,
        # are not complaints.
        lines = [line for line in self.machine.log().splitlines()
                 if not re.match("mmtrace: (ftrace: |kmem_activity: |oom_kill: )", line)]
        self.assertEqual(lines,
                         ["mmtrace: armed/armed.cfg: recording", "mmtrace: armed/armed.cfg: armed"])
        done = self.machine.run("setpriv", f"--reuid={strangers.UID}", f"--regid={strangers.UID}",
                                "--clear-groups", lib.MMTRACE, "trigger", "test")
        self.assertEqual(done.returncode, 0, done.stderr)
        lib.wait_for(lambda: self.traces() and "no verdict: " in self.machine.log(),
                     self.machine.log)
        self.assertRegex(self.machine.log(),
                         "no verdict: mmsql: --confined: cannot give up rights: .*heap.conf")
        done = self.machine.run(lib.MMTRACE, "bugreport", "-q", "-o",
                                self.machine.dir / "report.zip")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_heaps_take_more(self):
        """The program goes on without a profile, and the command names what is missing."""
        self.start()
        for uid in (0, strangers.UID):
            done, is_profiled = self.heap(uid, 2000)
            self.assertEqual((done.returncode, is_profiled), (1, False), done.stderr)
            self.assertRegex(done.stderr,
                             r"process \d+ is not profiled: the recorder may not trace it "
                             r"\(.*heap\.conf of the systemd unit\)")

    def test_stacks_take_more(self):
        self.start()
        done, packets = self.record(STACKS)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"linux\.perf is not recorded: .*\(.*heap\.conf of the "
                                      r"systemd unit\)")
        self.assertTrue(lib.of_kind(packets, "cpu_info"))

    @unittest.skipUnless(HELPER.exists(), "mmheap-attach is not in this build")
    def test_the_addition(self):
        """With heap.conf, the daemon records heaps of programs of any user, and logs the verdict of
        a trace."""
        self.start(addition=True)
        for uid in (0, strangers.UID):
            for ms in 3000, 12000:
                done, is_profiled = self.heap(uid, ms)
                if "the recording ended before its profile began" not in done.stderr:
                    break
            self.assertEqual((done.returncode, is_profiled), (0, True), done.stderr)
        with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as busy:  # others may be idle
            try:
                done, packets = self.record(STACKS)
            finally:
                busy.kill()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(lib.of_kind(packets, "perf_sample"))
        # Functions of the kernel have names: systemd opens the file that has them.
        self.assertNotIn("functions of the kernel have no names", self.machine.log())
        self.machine.run(lib.MMTRACE, "trigger", "test")
        lib.wait_for(self.traces, self.machine.log)
        lib.wait_for(lambda: re.search(r"\.pftrace: +\S", self.machine.log()), self.machine.log)
        self.assertNotIn("no verdict", self.machine.log())

    def test_life(self):
        """Reload, a crash, the end."""
        self.start()
        pid = self.machine.property("MainPID")
        self.machine.systemctl("reload", "mmtrace.service")
        self.assertEqual(self.machine.property("MainPID"), pid)
        self.machine.systemctl("kill", "--signal=KILL", "mmtrace.service")
        lib.wait_for(lambda: self.machine.property("ActiveState") == "active"
                     and self.machine.property("MainPID") not in ("0", pid),
                     self.machine.log, 30)
        self.assertEqual(self.machine.property("NRestarts"), "1")
        self.machine.systemctl("stop", "mmtrace.service")
        self.assertEqual((self.machine.property("ActiveState"), self.machine.property("Result")),
                         ("inactive", "success"))

    def test_sockets(self):
        """A first client starts the service."""
        self.start("mmtrace.socket", "mmtrace-producer.socket")
        self.assertEqual(self.machine.property("ActiveState"), "inactive")
        done = self.machine.run(lib.MMTRACE, "status")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("armed", done.stdout)
        self.assertEqual(self.machine.property("ActiveState"), "active")

    def test_group(self):
        """SocketGroup= and --consumer-group let a group record, and nobody else."""
        folder = self.machine.dir / "units" / "mmtrace.socket.d"
        folder.mkdir()
        # systemd wants a group with a name
        group = next(group for group in grp.getgrall() if group.gr_gid)
        (folder / "group.conf").write_text(f"[Socket]\nSocketGroup={group.gr_name}\n")
        (self.machine.dir / "units" / "mmtrace.service.d" / "group.conf").write_text(
            f"[Service]\nExecStart=\nExecStart={lib.MMTRACE} daemon --armed none --consumer-group "
            f"{group.gr_name}\n")
        self.start("mmtrace.socket", "mmtrace.service")
        config, out = self.machine.dir / "config", self.machine.dir / "out"
        config.write_text("duration_ms: 300 buffers { size_kb: 64 } "
                          'data_sources { config { name: "linux.sys_stats" sys_stats_config '
                          '{ vmstat_period_ms: 100 } } }')
        out.mkdir()
        out.chmod(0o777)
        for uid, gid, may in ((strangers.UID, group.gr_gid, True),
                              (strangers.UID + 1, strangers.UID + 1, False)):
            member = ("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups")
            done = self.machine.run(*member, lib.MMTRACE, "status")
            self.assertEqual(done.returncode == 0, may, done.stderr)
            if may:
                self.assertIn(f"pid {self.machine.property('MainPID')}, ", done.stdout)
            done = self.machine.run(*member, lib.MMTRACE, "record", "--no-verdict", "-c", config,
                                    "-o", out / f"{uid}")
            self.assertEqual("in this process" not in done.stderr, may, done.stderr)
            if may:
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(lib.of_kind(lib.decode(out / f"{uid}"), "sys_stats"))
        self.assertIn("consumer.sock': it cannot be given to group", self.machine.log())


if __name__ == "__main__":
    unittest.main()
