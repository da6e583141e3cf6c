# SPDX-License-Identifier: Apache-2.0
"""linux.sys_stats, linux.process_stats and linux.system_info against the /proc of this machine."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import lib
import states

MS = 1_000_000
CMDLINE_BYTES_MAX = 4096  # docs/recording.md says so

# A process and its thread change their names by prctl(PR_SET_NAME). The process says so, and waits
# for its end.
CHILD = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
def work():
    libc.prctl(15, b"named-thread", 0, 0, 0)
    started.set()
    end.wait()
started, end = threading.Event(), threading.Event()
thread = threading.Thread(target=work)
thread.start()
started.wait()
libc.prctl(15, b"named-main", 0, 0, 0)
print(thread.native_id, flush=True)
sys.stdin.readline()
end.set()
thread.join()
"""


class StatsCase(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="mmtrace-test-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)

    def record(self, config, while_recording=None, min_exit=0):
        """Records, and calls `while_recording` meanwhile. Returns the packets and the messages."""
        (self.dir / "config.cfg").write_text(config)
        trace = self.dir / "trace.pftrace"
        helper = threading.Thread(target=while_recording) if while_recording else None
        if helper:
            helper.start()
        done = lib.run(lib.MMTRACE, "record", "-c", self.dir / "config.cfg", "-o", trace)
        if helper:
            helper.join()
        self.assertEqual(done.returncode, min_exit, done.stderr)
        return lib.decode(trace), done.stderr

    def record_during(self, config, work):
        """The packets of a recording that lasts as long as `work`, which gets the pid of the
        recorder."""
        (self.dir / "config.cfg").write_text(config)
        trace = self.dir / "trace.pftrace"
        told, tell = os.pipe()
        with lib.Popen([lib.MMTRACE, "record", "-c", self.dir / "config.cfg", "-o", trace,
                        "--quiet", "--notify-fd",
                        str(tell)], pass_fds=[tell], stderr=subprocess.PIPE, text=True) as recorder:
            os.close(tell)
            with open(told, "rb") as stream:
                stream.read(1)  # all sources have started
            work(recorder.pid)
            recorder.send_signal(signal.SIGINT)
            _, said = recorder.communicate(timeout=60)
        self.assertEqual(recorder.returncode, 0, said)
        return lib.decode(trace)


def source(name, body="", buffer=0):
    return f'data_sources {{ config {{ name: "{name}" target_buffer: {buffer} {body} }} }}\n'


def counters(packets, kind):
    """The samples of meminfo or vmstat: a list of (timestamp, {key: value})."""
    return [(p.one("timestamp"), {c.one("key"): c.one("value") for c in p.all("sys_stats", kind)})
            for p in lib.of_kind(packets, "sys_stats") if p.one("sys_stats", kind)]


def proc_counters(path, prefix):
    values = {}
    for line in pathlib.Path(path).read_text().splitlines():
        name, value = line.replace(":", " ").split()[:2]
        values[prefix + name.upper()] = int(value)
    return values


class SysStats(StatsCase):
    def test_any_periods(self):
        packets, said = self.record(
            "buffers { size_kb: 8192 }\nduration_ms: 3000\n" +
            source("linux.sys_stats", "sys_stats_config { vmstat_period_ms: 7 "
                   "meminfo_period_ms: 250 stat_period_ms: 1000 }"))
        lost = sum(int(n.replace(",", ""))
                   for n in re.findall(r"([\d,]+) (?:events? lost|readings? left out)", said))
        vmstat, meminfo = counters(packets, "vmstat"), counters(packets, "meminfo")
        stat = [p for p in lib.of_kind(packets, "sys_stats") if p.one("sys_stats", "cpu_stat")]
        # Each grid point has its sample, or is counted as lost or late: some 429, 13 and 4 samples.
        # A few of the end may be due when a busy machine comes to stop the source.
        start, end = ([p.one("timestamp") for p in lib.of_kind(packets, "service_event")
                       if p.one("service_event", name)][0]
                      for name in ("tracing_started", "tracing_disabled"))
        n = len(vmstat) + len(meminfo) + len(stat) + lost
        self.assertLessEqual(n, sum((end - start) // (ms * MS) + 1 for ms in (7, 250, 1000)))
        first, last = vmstat[0][0], vmstat[-1][0]
        self.assertGreaterEqual(n, sum((last - first) // (ms * MS) for ms in (7, 250, 1000)) - 5)
        # Lateness does not add up: no sample is early, and some samples that are far apart are in
        # time.
        for samples, period_ms in ((vmstat, 7), (meminfo, 250)):
            times = [time_ns - start for time_ns, _ in samples]
            self.assertGreater(len(times), 0.3 * 3000 / period_ms)
            for i, time_ns in enumerate(times):
                self.assertGreaterEqual(time_ns, i * period_ms * MS)
        late = [(time_ns - first + 5 * MS) % (250 * MS) for time_ns, _ in meminfo]
        self.assertLess(min(late[-4:]), 80 * MS)
        # Polls that are due together share a packet.
        self.assertTrue(all(p.one("sys_stats", "meminfo") for p in stat))
        for p in lib.of_kind(packets, "sys_stats"):
            self.assertGreaterEqual(p.one("sys_stats", "collection_end_timestamp"),
                                    p.one("timestamp"))

    def test_counters_agree_with_proc(self):
        schema = (lib.ROOT / "protos/config/sys_stats_config.proto").read_text()
        known = set(re.findall(r"^\s+(VMSTAT_\w+) =", schema, re.M))
        before = proc_counters("/proc/vmstat", "VMSTAT_")
        packets, _ = self.record(
            "buffers { size_kb: 1024 }\nduration_ms: 300\n" +
            source("linux.sys_stats",
                   "sys_stats_config { vmstat_period_ms: 100 meminfo_period_ms: 100 }"))
        after = proc_counters("/proc/vmstat", "VMSTAT_")
        samples = counters(packets, "vmstat")
        self.assertTrue(samples)
        for _, sample in samples:
            self.assertEqual(set(sample), known & set(before))
            for name in ("VMSTAT_PGFAULT", "VMSTAT_PGFREE", "VMSTAT_PGPGOUT",
                         "VMSTAT_PGALLOC_NORMAL"):
                self.assertTrue(before[name] <= sample[name] <= after[name], name)
        memory = proc_counters("/proc/meminfo", "MEMINFO_")
        _, sample = counters(packets, "meminfo")[-1]
        self.assertEqual(sample["MEMINFO_MEM_TOTAL"], memory["MEMINFO_MEMTOTAL"])
        self.assertEqual(sample["MEMINFO_SWAP_TOTAL"], memory["MEMINFO_SWAPTOTAL"])
        self.assertEqual(sample["MEMINFO_COMMIT_LIMIT"], memory["MEMINFO_COMMITLIMIT"])
        for key, name in (("MEMINFO_MEM_FREE", "MEMINFO_MEMFREE"),
                          ("MEMINFO_SLAB_UNRECLAIMABLE", "MEMINFO_SUNRECLAIM"),
                          ("MEMINFO_ACTIVE_FILE", "MEMINFO_ACTIVE(FILE)")):
            self.assertAlmostEqual(sample[key], memory[name],
                                   delta=0.2 * memory["MEMINFO_MEMTOTAL"], msg=key)

    def test_named_counters_only(self):
        packets, _ = self.record(
            "buffers { size_kb: 1024 }\nduration_ms: 100\n" +
            source("linux.sys_stats", "sys_stats_config { vmstat_period_ms: 50 vmstat_counters: "
                   "[VMSTAT_PGPGIN, VMSTAT_NR_FREE_PAGES] stat_period_ms: 50 "
                   "stat_counters: STAT_FORK_COUNT }"))
        samples = counters(packets, "vmstat")
        self.assertTrue(samples)
        for _, sample in samples:
            self.assertEqual(set(sample), {"VMSTAT_PGPGIN", "VMSTAT_NR_FREE_PAGES"})
        stats = [p.one("sys_stats") for p in lib.of_kind(packets, "sys_stats")]
        self.assertTrue(all("num_forks" in s for s in stats))
        self.assertFalse(any("cpu_stat" in s or "num_irq" in s for s in stats))

    @lib.needs_root
    def test_other_kinds_agree_with_proc(self):
        def psi(name):
            return {words[0]: 1000 * int(words[-1].split("=")[1])
                    for words in map(str.split,
                                     pathlib.Path(
                                         f"/proc/pressure/{name}").read_text().splitlines())}

        def disks():
            return {w[2]: int(w[9]) for w in
                    map(str.split, pathlib.Path("/proc/diskstats").read_text().splitlines())}

        def cpu_ticks():
            return [sum(map(int, w[1:9])) for w in
                    map(str.split, pathlib.Path("/proc/stat").read_text().splitlines())
                    if re.fullmatch(r"cpu\d+", w[0])]
        before = psi("memory"), disks(), cpu_ticks()
        packets, _ = self.record(
            "buffers { size_kb: 4096 }\nduration_ms: 100\n" +
            source("linux.sys_stats", "sys_stats_config { stat_period_ms: 1000 psi_period_ms: 1000 "
                   "buddyinfo_period_ms: 1000 diskstat_period_ms: 1000 slab_period_ms: 1000 }"))
        after = psi("memory"), disks(), cpu_ticks()
        stats = lib.of_kind(packets, "sys_stats")[0].one("sys_stats")
        by_resource = {p.one("resource"): p.one("total_ns") for p in stats.all("psi")}
        self.assertEqual(len(by_resource), 6)
        for kind in ("some", "full"):
            total = by_resource[f"PSI_RESOURCE_MEMORY_{kind.upper()}"]
            self.assertTrue(before[0][kind] <= total <= after[0][kind])
        sectors = {d.one("device_name"): d.one("write_sectors") for d in stats.all("disk_stat")}
        self.assertEqual(set(sectors), set(before[1]))
        for name, count in sectors.items():
            self.assertTrue(before[1][name] <= count <= after[1][name], name)
        tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")
        cpus = [sum(v[0] for k, v in cpu.items() if k.endswith("_ns")) // tick_ns
                for cpu in stats.all("cpu_stat")]
        for low, recorded, high in zip(before[2], cpus, after[2], strict=True):
            # Idle time may step back by a tick between two reads.
            self.assertTrue(low - 3 <= recorded <= high + 3, (low, recorded, high))
        buddy = [(b.one("node"), b.one("zone"), len(b.all("order_pages")))
                 for b in stats.all("buddy_info")]
        lines = pathlib.Path("/proc/buddyinfo").read_text().splitlines()
        self.assertEqual(buddy, [(w[1].rstrip(","), w[3], len(w) - 4)
                                 for w in map(str.split, lines)])
        slabs = {s.one("name") for s in stats.all("slab_info")}
        lines = pathlib.Path("/proc/slabinfo").read_text().splitlines()[2:]
        self.assertLess(len(slabs ^ {line.split()[0] for line in lines}), 5)


def tree(packets):
    """The names in the trace: {pid: [cmdline...]}, {tid: (tgid, name)}, in the trace's order."""
    processes, threads = {}, {}
    for p in sorted(lib.of_kind(packets, "process_tree"), key=lambda p: p.one("timestamp")):
        for process in p.all("process_tree", "processes"):
            processes[process.one("pid")] = [str(a) for a in process.all("cmdline")]
        for thread in p.all("process_tree", "threads"):
            threads[thread.one("tid")] = (thread.one("tgid"), thread.one("name"))
    return processes, threads


def recorded_text(text):
    """Text as the trace has it: a byte that is not UTF-8 is a question mark."""
    return re.sub("[\udc80-\udcff]", "?", text.decode("utf-8", "surrogateescape"))


def cmdline(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()[:CMDLINE_BYTES_MAX]
        if text:
            return [recorded_text(a) for a in text.split(b"\0") if a]
        return [recorded_text(pathlib.Path(f"/proc/{pid}/comm").read_bytes()[:-1])]
    except OSError:
        return None


def all_processes():
    return {int(p): cmdline(p) for p in os.listdir("/proc") if p.isdigit()}


class ProcessStats(StatsCase):
    def start_long_command(self):
        """A process with line breaks in its command line, which is far longer than the recorded
        part."""
        argv = ["sh", "-c", "read line", "long", "line\n" * 100 + "é" * 12000, "last"]
        child = subprocess.Popen(argv, stdin=subprocess.PIPE)
        self.addCleanup(child.communicate)
        # Popen() returns before the child has its new command line.
        while not pathlib.Path(f"/proc/{child.pid}/cmdline").read_bytes():
            self.assertIsNone(child.poll())
            time.sleep(0.01)
        n_before = sum(len(arg) + 1 for arg in argv[:4])
        n_whole, rest = divmod(CMDLINE_BYTES_MAX - n_before - 500, 2)
        self.assertEqual(rest, 1)  # the cut is within a character
        return child.pid, argv[:4] + ["line\n" * 100 + "é" * n_whole + "?"]

    def assert_names(self, packets, before, after):
        """Asserts that a process which kept its name during the recording has this name in the
        trace."""
        processes, _ = tree(packets)
        for pid, name in before.items():
            # Workers of the kernel change their names with their work.
            if name is None or after.get(pid) != name or name[0].startswith("kworker"):
                continue
            self.assertEqual(processes.get(pid), name)

    def test_all_processes(self):
        pid, argv = self.start_long_command()
        before = all_processes()
        packets, _ = self.record(
            "buffers { size_kb: 4096 }\nduration_ms: 200\n" +
            source("linux.process_stats", "process_stats_config { scan_all_processes_on_start: "
                   "true record_thread_names: true record_process_age: true }"))
        self.assert_names(packets, before, all_processes())
        self.assertEqual(tree(packets)[0].get(pid), argv)
        own = [p for tree in lib.of_kind(packets, "process_tree")
               for p in tree.all("process_tree", "processes") if p.one("pid") == os.getpid()][0]
        self.assertEqual(own.one("ppid"), os.getppid())
        self.assertEqual(own.one("uid"), os.getuid())
        stat = pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
        self.assertEqual(own.one("process_start_from_boot"),
                         int(stat[19]) * 10**9 // os.sysconf("SC_CLK_TCK"))
        _, threads = tree(packets)
        name = pathlib.Path("/proc/self/comm").read_text()[:-1]
        self.assertEqual(threads[os.getpid()], (os.getpid(), name))

    def test_wrapped_ring_names_every_process(self):
        pid, argv = self.start_long_command()
        before = all_processes()
        packets, _ = self.record(
            "buffers { size_kb: 64 fill_policy: RING_BUFFER }\nduration_ms: 1500\n" +
            source("linux.process_stats",
                   "process_stats_config { scan_all_processes_on_start: true }") +
            source("linux.sys_stats", "sys_stats_config { vmstat_period_ms: 1 }"))
        stats = lib.of_kind(packets, "trace_stats")[-1].one("trace_stats", "buffer_stats")
        self.assertGreater(stats.one("write_wrap_count"), 0)
        self.assert_names(packets, before, all_processes())
        self.assertEqual(tree(packets)[0].get(pid), argv)

    def run_children(self, recorder):
        return [self.run_child(recorder) for _ in range(2)]

    def run_child(self, recorder):
        with lib.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as child:
            tid = int(child.stdout.readline())
            # some periods of 50 and 100 ms, and time for a late recorder
            time.sleep(0.5)
            states.wait_for_turns(recorder, 30)
            status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
            child.communicate("\n")
            return {"pid": child.pid, "tid": tid, "status": status}

    def assert_children(self, packets, seen):
        processes, threads = tree(packets)
        names = []
        for child in seen:
            pid = child["pid"]
            self.assertEqual(processes.get(pid), [sys.executable, "-c", CHILD])
            self.assertEqual([threads.get(t, [None])[0] for t in (pid, child["tid"])], [pid, pid])
            names.append((threads[pid][1], threads[child["tid"]][1]))
        # If the recorder saw the process before the change, the trace has the first name.
        self.assertIn(("named-main", "named-thread"), names)

    def test_polls_meet_new_processes(self):
        seen = []
        packets = self.record_during(
            "buffers { size_kb: 4096 }\n" +
            source("linux.process_stats", "process_stats_config { record_thread_names: true "
                   "proc_stats_poll_ms: 50 proc_stats_cache_ttl_ms: 600000 "
                   "record_process_runtime: true scan_smaps_rollup: true }"),
            lambda recorder: seen.extend(self.run_children(recorder)))
        self.assert_children(packets, seen)
        samples = [p for s in lib.of_kind(packets, "process_stats")
                   for p in s.all("process_stats", "processes") if p.one("pid") == seen[0]["pid"]]
        last = {}
        for sample in samples:
            last.update({name: values[0] for name, values in sample.items()})
        status = dict(line.split(":", 1) for line in seen[0]["status"].splitlines())
        for field, key in (("vm_size_kb", "VmSize"), ("vm_rss_kb", "VmRSS"),
                           ("vm_hwm_kb", "VmHWM"), ("vm_swap_kb", "VmSwap"),
                           ("rss_anon_kb", "RssAnon"), ("rss_file_kb", "RssFile")):
            self.assertAlmostEqual(last[field], int(status[key].split()[0]),
                                   delta=512, msg=field)
        self.assertIn("smr_pss_kb", last)
        self.assertIn("runtime_user_mode", last)
        self.assertEqual(last["oom_score_adj"],
                         int(pathlib.Path("/proc/self/oom_score_adj").read_text()))
        # Only changes are written: the size of a sleeping process comes once or twice.
        self.assertLess(sum("vm_swap_kb" in s for s in samples), 2)

    @lib.needs_tracefs
    def test_ftrace_meets_new_processes(self):
        seen = []
        packets = self.record_during(
            "buffers { size_kb: 16384 }\n" +
            source("linux.process_stats", "process_stats_config { record_thread_names: true }") +
            source("linux.ftrace", 'ftrace_config { ftrace_events: "sched/sched_switch" '
                   'ftrace_events: "task/task_rename" drain_period_ms: 100 }'),
            lambda recorder: seen.extend(self.run_children(recorder)))
        self.assert_children(packets, seen)

    def test_file_descriptors(self):
        with tempfile.NamedTemporaryFile() as file:
            packets, _ = self.record(
                "buffers { size_kb: 4096 }\nduration_ms: 100\n" +
                source("linux.process_stats", "process_stats_config { resolve_process_fds: true "
                       "scan_all_processes_on_start: true }"))
            fds = {f.one("fd"): f.one("path") for s in lib.of_kind(packets, "process_stats")
                   for p in s.all("process_stats", "processes") if p.one("pid") == os.getpid()
                   for f in p.all("fds")}
            self.assertEqual(fds.get(file.fileno()), file.name)


class SystemInfo(StatsCase):
    def test_cpus_and_interrupts(self):
        packets, _ = self.record(
            "buffers { size_kb: 1024 }\nduration_ms: 50\n" +
            source("linux.system_info", "system_info_config { irq_names: true }"))
        cpus = [c for p in lib.of_kind(packets, "cpu_info") for c in p.all("cpu_info", "cpus")]
        info = pathlib.Path("/proc/cpuinfo").read_text()
        self.assertEqual(len(cpus), len(re.findall(r"^processor\s*:", info, re.M)))
        capacity = pathlib.Path("/sys/devices/system/cpu/cpu0/cpu_capacity")
        if capacity.exists():
            self.assertEqual(cpus[0].one("capacity"), int(capacity.read_text()))
        names = {m.one("irq_id"): m.one("name") for p in lib.of_kind(packets, "interrupt_info")
                 for m in p.all("interrupt_info", "irq_mapping")}
        lines = pathlib.Path("/proc/interrupts").read_text().splitlines()
        for line in lines[1:]:
            words = line.split()
            if re.fullmatch(r"\d+:", words[0]) and re.search(r"-(edge|fasteoi|level)$", words[-2]):
                self.assertEqual(names.get(int(words[0][:-1])), words[-1])


if __name__ == "__main__":
    unittest.main()
