# SPDX-License-Identifier: Apache-2.0
"""Recordings of members of the consumer group show only what is theirs, and the daemon keeps few
rights of root (docs/threat-model.md)."""
import ctypes
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
from strangers_daemon import Daemon
from test_heap import LIBRARY
from test_stacks import TRUTH, rows


@lib.needs_root
class MembersSee(unittest.TestCase):
    """M2: a recording shows members of the consumer group only what they could see without the
    daemon."""

    def setUp(self):
        self.daemon = Daemon(self, "--consumer-group", str(strangers.UID)).ready()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-members-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.dir.chmod(0o755)
        (self.dir / "out").mkdir()
        os.chown(self.dir / "out", strangers.UID, strangers.UID)

    def record(self, config):
        """The packets of a recording by a member."""
        path = self.dir / "config"
        path.write_text("buffers { size_kb: 1024 } duration_ms: 1200 " + config)
        trace = self.dir / "out" / "trace"
        with lib.Popen([lib.MMTRACE, "record", "-c", path, "-o", trace], env=self.daemon.env,
                       user=strangers.UID, group=strangers.UID, extra_groups=[],
                       stderr=subprocess.PIPE, text=True) as client:
            self.addCleanup(client.kill)
            said = client.communicate(timeout=60)[1]
        done = subprocess.CompletedProcess(client.args, client.returncode, "", said)
        self.client = client.pid
        self.assertNotIn("in this process", done.stderr)
        return done, lib.decode(trace) if trace.exists() else []

    def record_of_root(self, config):
        path = self.dir / "config"
        path.write_text("buffers { size_kb: 8192 } duration_ms: 1200 " + config)
        done = lib.run(lib.MMTRACE, "record", "--no-verdict", "-c", path, "-o",
                       self.dir / "trace", env=self.daemon.env)
        self.assertNotIn("in this process", done.stderr)
        return done, lib.decode(self.dir / "trace")

    @staticmethod
    def files(packets):
        """The paths of the files that a trace has the residency of."""
        return [file.one("path") for packet in lib.of_kind(packets, "page_residency")
                for files in packet.one("page_residency").values() for file in files
                if isinstance(file, lib.Message) and "path" in file]

    def sleeper(self, uid):
        process = subprocess.Popen(["sleep", "60"], user=uid, group=uid, extra_groups=[])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        states.wait_for_program(process.pid, "sleep")
        return process.pid

    def test_files(self):
        secret, hidden, open_to_all, own = (self.dir / name
                                            for name in ("secret", "closed/hidden", "open", "own"))
        (self.dir / "closed").mkdir(0o700)
        for path, mode in ((secret, 0o600), (hidden, 0o644), (open_to_all, 0o644), (own, 0o600)):
            path.write_bytes(bytes(100000))
            path.chmod(mode)
        os.chown(own, strangers.UID, strangers.UID)
        paths = " ".join(f'paths: "{path}"' for path
                         in (secret, hidden, open_to_all, own, self.dir / "closed", "/etc/shadow"))
        _, packets = self.record(f"""data_sources {{ config {{ name: "linux.page_residency"
            page_residency_config {{ {paths} period_ms: 300 }} }} }}""")
        seen = self.files(packets)
        for path in (str(secret), str(hidden), "/etc/shadow"):
            self.assertNotIn(path, seen)
        self.assertEqual({str(open_to_all), str(own)} - set(seen), set())

    def test_files_of_processes(self):
        pids = {uid: self.sleeper(uid) for uid in (0, strangers.UID, strangers.UID + 1)}
        for uid, pid in pids.items():
            _, packets = self.record(f"""data_sources {{ config {{ name: "linux.page_residency"
                page_residency_config {{ pids: {pid} period_ms: 300 }} }} }}""")
            seen = self.files(packets)
            self.assertEqual(bool(seen), uid == strangers.UID, uid)

    def test_smaps(self):
        pids = {uid: self.sleeper(uid) for uid in (0, strangers.UID)}
        _, packets = self.record("""data_sources { config { name: "linux.process_stats"
            process_stats_config { proc_stats_poll_ms: 200 scan_smaps_rollup: true } } }""")
        with_smaps = {process.one("pid") for packet in lib.of_kind(packets, "process_stats")
                      for process in packet.all("process_stats", "processes")
                      if any(name.startswith("smr_") for name in process)}
        self.assertIn(pids[strangers.UID], with_smaps)
        self.assertNotIn(pids[0], with_smaps)
        self.assertNotIn(self.daemon.process.pid, with_smaps)

    def test_heaps(self):
        """The recorder does not attach to a program of root's, and a message tells the member."""
        pid = self.sleeper(0)
        done, packets = self.record(
            f'data_sources {{ config {{ name: "linux.heap" heapprofd_config {{ pid: {pid} '
            'sampling_interval_bytes: 4096 } } }')
        self.assertEqual(lib.of_kind(packets, "profile_packet"), [])
        self.assertIn(f"user {strangers.UID}, who asked for the recording, may not trace it",
                      self.daemon.said())
        self.assertNotIn("libmmheap", states.proc_text(pid, "maps"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"process {pid} is not profiled", done.stderr)


    SAMPLED = """data_sources { config { name: "linux.perf" perf_event_config {
        timebase { counter: SW_CPU_CLOCK frequency: 1000 } %s
        callstack_sampling { kernel_frames: true user_frames: UNWIND_FRAME_POINTER } } } }"""

    def burner(self, uid):
        process = subprocess.Popen([TRUTH, "burn", "60"], user=uid, group=uid, extra_groups=[])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process.pid

    def test_stacks(self):
        """Samples are of the member's own processes, and of the programs' part alone."""
        pids = {uid: self.burner(uid) for uid in (0, strangers.UID, strangers.UID + 1)}
        done, packets = self.record(self.SAMPLED % "")
        self.assertEqual(done.returncode, 0, done.stderr)
        # Packets without a pid count samples that were lost on a slow machine.
        samples = [packet for packet in lib.of_kind(packets, "perf_sample")
                   if "pid" in packet.one("perf_sample")]
        # The command that records is the member's, too.
        self.assertEqual({sample.one("perf_sample", "pid") for sample in samples} - {self.client},
                         {pids[strangers.UID]})
        self.assertEqual({sample.one("perf_sample", "cpu_mode") for sample in samples},
                         {"MODE_USER"})
        self.assertIn("the kernel's part is left out", self.daemon.said())
        # Root's recording has all of these.
        done, packets = self.record_of_root(self.SAMPLED % "")
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = {sample.one("perf_sample", "pid")
                for sample in lib.of_kind(packets, "perf_sample")
                if "pid" in sample.one("perf_sample")}
        self.assertEqual(set(pids.values()) - seen, set())

    def test_stacks_of_events_of_all_users(self):
        """A recording that would show processes of other users is refused; the command says so."""
        probe = self.SAMPLED.replace("counter: SW_CPU_CLOCK", "raw_event { type: 5 config1: 4096 }")
        for config in (self.SAMPLED % "followers { counter: SW_PAGE_FAULTS }", probe % ""):
            done, packets = self.record(config)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("only root may record them", done.stderr)
            self.assertEqual(lib.of_kind(packets, "perf_sample"), [])

    @lib.needs_tracefs
    def test_probes(self):
        """A member changes no code of the kernel."""
        done, packets = self.record("""data_sources { config { name: "linux.ftrace" ftrace_config {
            kprobe_events { probe: "do_sys_openat2" type: KPROBE_TYPE_KPROBE } } } }""")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("kprobe_events change the kernel's code", done.stderr)
        self.assertEqual(lib.of_kind(packets, "ftrace_events"), [])

    def test_stacks_too_often(self):
        """The samples of a user leave enough of the processors to other users."""
        for timebase, why in (("frequency: 100000", "the limit of 1000 samples a second"),
                              ("period: 1000", "others set a frequency")):
            config = self.SAMPLED.replace("frequency: 1000", timebase) % ""
            done, _ = self.record(config)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(why, done.stderr)
        done, packets = self.record(self.SAMPLED.replace("1000", "600") % "" + self.SAMPLED % "")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertTrue(lib.of_kind(packets, "trace_config"))

    def test_stacks_of_set_uid_programs(self):
        """A recording does not show a set-uid program that soon executes a program of the member's,
        also if the daemon judges a sample after the set-uid program has ended."""
        program, own_program = self.dir / "set_uid_program", self.dir / "own_program"
        for path, mode in ((program, 0o4755), (own_program, 0o755)):
            shutil.copy(TRUTH, path)
            path.chmod(mode)
        process = subprocess.Popen([program, "turn", "0.02", own_program], user=strangers.UID,
                                   group=strangers.UID, extra_groups=[])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        own = self.burner(strangers.UID)
        done, _ = self.record(self.SAMPLED % "ring_buffer_read_period_ms: 300")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIsNone(process.poll())
        # Code of a program whose mappings are unknown is "/[anon]".
        leaves = rows(self.dir / "out" / "trace",
                      "SELECT DISTINCT pid, m.name FROM perf_sample s JOIN thread USING (utid) "
                      "JOIN process USING (upid) JOIN stack_profile_callsite c ON c.id = "
                      "s.callsite_id JOIN stack_profile_frame f ON f.id = c.frame_id "
                      "JOIN stack_profile_mapping m ON m.id = f.mapping")
        self.assertIn([own, str(TRUTH)], leaves)
        self.assertEqual({pid for pid, _ in leaves} - {self.client, process.pid}, {own})
        self.assertEqual([leaf for leaf in leaves if leaf[0] != self.client and
                          leaf[1] in ("/[anon]", str(program))], [])


@lib.needs_root
class Rights(unittest.TestCase):
    """The rights of root that the daemon keeps, also where no service manager removes the rest."""

    KEPT = {1 << n for n in (2, 3, 5, 6, 7, 14, 19, 23, 24, 34, 38, 40)}
    SYS_ADMIN, SYS_MODULE, DAC_OVERRIDE, CHOWN, NET_ADMIN = (1 << n for n in (21, 16, 1, 0, 12))

    def rights(self, process):
        text = states.proc_text(process, "status")
        return {name: int(re.search(rf"{name}:\s*(\w+)", text)[1], 16)
                for name in ("CapPrm", "CapEff", "CapInh", "CapBnd", "CapAmb", "NoNewPrivs",
                             "Seccomp")}

    def test_rights_that_are_kept(self):
        daemon = Daemon(self, "--consumer-group", str(strangers.UID)).ready()
        threads = os.listdir(f"/proc/{daemon.process.pid}/task")
        self.assertGreater(len(threads), 1)
        for thread in threads:
            rights = self.rights(f"{daemon.process.pid}/task/{thread}")
            self.assertEqual(rights["CapPrm"] & ~sum(self.KEPT), 0, rights)
            self.assertEqual((rights["CapInh"], rights["CapAmb"]), (0, 0))
            self.assertEqual((rights["NoNewPrivs"], rights["Seccomp"]), (1, 2))
            for lost in (self.SYS_ADMIN, self.SYS_MODULE, self.DAC_OVERRIDE, self.CHOWN,
                         self.NET_ADMIN):
                self.assertFalse(rights["CapBnd"] & lost, rights)
        # The step before still works: the group of the socket.
        self.assertEqual((daemon.run_dir / "consumer.sock").stat().st_gid, strangers.UID)

    def unit_capabilities(self, *files):
        names = " ".join(re.findall(r"(?m)^CapabilityBoundingSet=(.*)$",
                                    "".join(path.read_text() for path in files))).split()
        header = dict(re.findall(r"#define (CAP_\w+)\s+(\d+)",
                                 pathlib.Path("/usr/include/linux/capability.h").read_text()))
        return {int(header[name]) for name in names}

    @staticmethod
    def bound(capabilities):
        libc = ctypes.CDLL(None)
        for number in range(64):
            if number not in capabilities:
                libc.prctl(24, number, 0, 0, 0)  # PR_CAPBSET_DROP

    def start_with(self, capabilities, **popen):
        """A daemon that root starts with no more than these capabilities, as a service manager
        does."""
        return Daemon(self, "--consumer-group", str(strangers.UID),
                      preexec_fn=lambda: self.bound(capabilities),
                      **popen).ready()

    def record_heap(self, daemon, duration_ms=2000):
        """A profile of a running program of another user."""
        process = subprocess.Popen(["sleep", "60"], user=strangers.UID, group=strangers.UID,
                                   extra_groups=[])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        states.wait_for_program(process.pid, "sleep")
        config = daemon.root / "config"
        config.write_text(
            f'buffers {{ size_kb: 1024 }} duration_ms: {duration_ms} data_sources {{ config '
            f'{{ name: "linux.heap" heapprofd_config {{ pid: {process.pid} '
            f'sampling_interval_bytes: 4096 }} }} }}')
        return lib.run(lib.MMTRACE, "record", "-c", config, "-o", daemon.root / "trace",
                       env=daemon.env)

    @unittest.skipUnless(os.path.exists("/usr/include/linux/capability.h"),
                         "needs the kernel's headers (linux-libc-dev), which scripts/install-deps "
                         "installs with libc6-dev")
    def test_shipped_unit(self):
        """M9: the command reports what a source cannot do under the shipped unit; the rest is
        recorded."""
        daemon = self.start_with(self.unit_capabilities(lib.BUILD / "configs" / "mmtrace.service"))
        done = self.record_heap(daemon)
        if "attached, one thread stood still" not in daemon.said():
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("is not profiled: ", done.stderr)
        config = daemon.root / "config"
        config.write_text((lib.ROOT / "configs" / "full.cfg").read_text())
        done = lib.run(lib.MMTRACE, "record", "-c", config, "-t", "1s", "-o", daemon.root / "trace",
                       env=daemon.env)
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(os.path.exists("/usr/include/linux/capability.h"),
                         "needs the kernel's headers (linux-libc-dev), which scripts/install-deps "
                         "installs with libc6-dev")
    def test_group_of_the_socket(self):
        """If the socket cannot be given to the group, only its owner may use it, and the log says
        so."""
        capabilities = self.unit_capabilities(lib.BUILD / "configs" / "mmtrace.service")
        for groups, mode, gid, code in (([], 0o600, 0, 1),
                                        ([strangers.UID], 0o660, strangers.UID, 0)):
            with self.subTest(groups):
                daemon = self.start_with(capabilities, extra_groups=groups)
                status = (daemon.run_dir / "consumer.sock").stat()
                self.assertEqual((status.st_mode & 0o777, status.st_gid), (mode, gid))
                line = (f"consumer.sock': it cannot be given to group {strangers.UID}: its owner "
                        "alone may connect (run the daemon with this group")
                self.assertEqual(line in daemon.said(), mode == 0o600, daemon.said())
                done = lib.run(lib.MMTRACE, "status", env=daemon.env, user=strangers.UID,
                               group=strangers.UID, extra_groups=[])
                self.assertEqual(done.returncode, code, done.stderr)
                daemon.status()

    @unittest.skipUnless(os.path.exists("/usr/include/linux/capability.h"),
                         "needs the kernel's headers (linux-libc-dev), which scripts/install-deps "
                         "installs with libc6-dev")
    def test_unit_with_its_addition(self):
        daemon = self.start_with(self.unit_capabilities(lib.BUILD / "configs" / "mmtrace.service",
                                                        lib.ROOT / "configs" / "systemd"
                                                        / "heap.conf"))
        for ms in lib.longer(2000):
            done = self.record_heap(daemon, ms)
            if "the recording ended before its profile began" not in done.stderr:
                break
        self.assertEqual(done.returncode, 0, done.stderr + daemon.said())

    def record_map(self, daemon):
        """A program of another user with a perf map; what `record` says, and the packets about
        it."""
        process = subprocess.Popen(["sh", "-c",
                                    "echo 10 8 compiled > /tmp/perf-$$.map; exec sleep 600"],
                                   user=strangers.UID, group=strangers.UID, extra_groups=[])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        path = pathlib.Path(f"/tmp/perf-{process.pid}.map")
        self.addCleanup(path.unlink)
        lib.wait_for(lambda: path.exists() and path.stat().st_size > 0, "the map")
        config = daemon.root / "config"
        config.write_text(f'''buffers {{ size_kb: 1024 }} duration_ms: 500
            data_sources {{ config {{ name: "linux.perf_map"
              perf_map_config {{ pids: {process.pid} }} }} }}
            data_sources {{ config {{ name: "linux.system_info" }} }}''')
        trace = daemon.root / "trace"
        done = lib.run(lib.MMTRACE, "record", "-c", config, "-o", trace, env=daemon.env)
        maps = [packet.one("perf_map") for packet in lib.of_kind(lib.decode(trace), "perf_map")]
        return process.pid, done, maps

    @unittest.skipUnless(os.path.exists("/usr/include/linux/capability.h"),
                         "needs the kernel's headers (linux-libc-dev), which scripts/install-deps "
                         "installs with libc6-dev")
    def test_maps_under_the_shipped_unit(self):
        """The map is left out, and the log, the exit code and the trace say so."""
        daemon = self.start_with(self.unit_capabilities(lib.BUILD / "configs" / "mmtrace.service"))
        pid, done, maps = self.record_map(daemon)
        why = (f"linux.perf_map: process {pid} of user {strangers.UID}: the recorder may not look "
               "at its files")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(why, done.stderr)
        self.assertEqual(daemon.said().count(why), 1, daemon.said())
        self.assertIn("heap.conf", daemon.said())
        self.assertEqual([(m.one("pid"), m.one("refused")) for m in maps], [(pid, True)])

    @unittest.skipUnless(os.path.exists("/usr/include/linux/capability.h"),
                         "needs the kernel's headers (linux-libc-dev), which scripts/install-deps "
                         "installs with libc6-dev")
    def test_maps_with_the_addition(self):
        daemon = self.start_with(self.unit_capabilities(lib.BUILD / "configs" / "mmtrace.service",
                                                        lib.ROOT / "configs" / "systemd"
                                                        / "heap.conf"))
        pid, done, maps = self.record_map(daemon)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(m.one("pid"), m.one("text")) for m in maps], [(pid, "10 8 compiled\n")],
                         maps)

    @unittest.skipUnless(os.path.exists("/usr/include/linux/capability.h"),
                         "needs the kernel's headers (linux-libc-dev), which scripts/install-deps "
                         "installs with libc6-dev")
    @unittest.skipUnless(LIBRARY.exists(), "libmmheap.so is not in this build")
    def test_names_under_the_shipped_unit(self):
        """Functions of another user's program have no names then. The log and the trace say so."""
        root = pathlib.Path(tempfile.mkdtemp(prefix="mmtrace-strangers-"))
        self.addCleanup(shutil.rmtree, root, ignore_errors=True)
        root.chmod(0o755)
        program = shutil.copy(lib.BUILD / "tests" / "tools" / "heap_truth", root / "named_program")
        (root / "config").write_text("""buffers { size_kb: 4096 }
            data_sources { config { name: "linux.heap"
            heapprofd_config { process_cmdline: "named_program"
              sampling_interval_bytes: 4096 } } }""")
        env = {**os.environ, "MMTRACE_HEAP_SOCKET": str(root / "heap.sock")}
        capabilities = self.unit_capabilities(lib.BUILD / "configs" / "mmtrace.service")
        with open(root / "log", "wb") as log:
            recorder = subprocess.Popen([lib.MMTRACE, "record", "--no-daemon", "--no-verdict", "-c",
                                         root / "config", "-o", root / "trace"],
                                        stderr=log, env=env,
                                        preexec_fn=lambda: self.bound(capabilities))
        self.addCleanup(recorder.wait)
        self.addCleanup(recorder.kill)
        states.wait_for_recorder(recorder.pid)
        lib.wait_for((root / "heap.sock").exists, "the recorder's socket")
        process = subprocess.Popen([program, "1", "200000000"],
                                   env={**env, "LD_PRELOAD": str(LIBRARY)},
                                   stdout=subprocess.DEVNULL,
                                   user=strangers.UID, group=strangers.UID, extra_groups=[])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        why = (f"linux.heap: process {process.pid} of user {strangers.UID}: the recorder may not "
               "look at its files")
        lib.wait_for(lambda: why in (root / "log").read_text(), "the line about names")
        recorder.send_signal(signal.SIGTERM)
        self.assertEqual(recorder.wait(60), 0, (root / "log").read_text())
        self.assertEqual((root / "log").read_text().count("may not look at its files"), 1)
        stats = [dump.one("stats")
                 for packet in lib.of_kind(lib.decode(root / "trace"), "profile_packet")
                 for dump in packet.all("profile_packet", "process_dumps")]
        self.assertEqual({s.one("names_refused") for s in stats}, {1}, stats)

    def test_off(self):
        """MMTRACE_SANDBOX=off turns the filter of calls off, for coverage and debuggers."""
        daemon = Daemon(self)
        daemon.kill(daemon.process)
        daemon.env["MMTRACE_SANDBOX"] = "off"
        daemon.start().ready()
        self.assertEqual(self.rights(daemon.process.pid)["Seccomp"], self.rights("self")["Seccomp"])


if __name__ == "__main__":
    unittest.main()
