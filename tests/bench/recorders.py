# SPDX-License-Identifier: Apache-2.0
"""The recorders that tests/bench/run compares: how each is started, watched and stopped.

A peer in a root file system of its own runs in a private mount namespace, so that nothing stays
mounted.
"""
import collections
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

SAMPLE_S = 0.004
START_S = 1.5
TRACEFS = pathlib.Path("/sys/kernel/tracing")
PEER_PROGRAMS = ("traced", "traced_probes", "perfetto")
EVENTS = ("sched/sched_switch", "sched/sched_waking", "kmem/mm_page_alloc", "kmem/mm_page_free",
          "kmem/rss_stat")
QUIET = ("oom/mark_victim",)
ALL_EVENTS = ("sched/*", "kmem/*", "irq/*")

# The contents of the trace of a shape (see Shape).
RSS = ("kmem/rss_stat",)
SCHED = ("sched/sched_switch", "sched/sched_waking", "kmem/rss_stat")
MIXED = (*EVENTS, "task/task_newtask", "task/task_rename", "sched/sched_process_exit",
         "vmscan/*", "compaction/*", "irq/softirq_entry", "irq/softirq_exit")
COUNTERS = """
data_sources { config { name: "linux.process_stats" process_stats_config {
  scan_all_processes_on_start: true proc_stats_poll_ms: 500 } } }
data_sources { config { name: "linux.sys_stats" sys_stats_config {
  vmstat_period_ms: 100 meminfo_period_ms: 100 stat_period_ms: 100 } } }
"""
Shape = collections.namedtuple("Shape", "what file_bytes settings")
SHAPES = (
    Shape("rss_stat", 45_000_000, {"events": RSS}),
    Shape("deflated, scheduling and rss_stat", 16_000_000,
          {"events": SCHED, "compact_sched": True, "deflated": True}),
    Shape("mixed", 45_000_000, {"events": MIXED, "more": COUNTERS}),
)


def config(buffer_kb, compact_sched=False, file_bytes=0, events=EVENTS, deflated=False, more="",
           kernel_kb=8192):
    """`more`: further data sources."""
    events = "\n".join(f'      ftrace_events: "{event}"' for event in events)
    into_file = f"write_into_file: true file_write_period_ms: 500 max_file_size_bytes: {file_bytes}"
    return f"""
buffers {{ size_kb: {buffer_kb} fill_policy: RING_BUFFER }}
data_sources {{
  config {{
    name: "linux.ftrace"
    ftrace_config {{
{events}
      buffer_size_kb: {kernel_kb}
      drain_period_ms: 100
      compact_sched {{ enabled: {str(compact_sched).lower()} }}
    }}
  }}
}}
{more}
{into_file if file_bytes else ""}
{"compression_type: COMPRESSION_TYPE_DEFLATE" if deflated else ""}
duration_ms: 600000
"""


def cpu_ns(pid):
    """CPU time of all threads of a process, 0 when it is gone."""
    total = 0
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            total += int(pathlib.Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
    except (OSError, IndexError):
        pass
    return total


def pss_bytes(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


Cost = collections.namedtuple("Cost", "seconds cpu_seconds peak_bytes")


def peak_rss_bytes(pid):
    """The highest RSS since the program was executed. (ru_maxrss also counts the process before
    execve().)"""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def measure(argv):
    """The cost of a program that has to succeed; memory is its peak RSS, looked at until shortly
    before its end."""
    started = time.monotonic()
    child = subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL)
    peak, pid = 0, 0
    while not pid:
        peak = max(peak, peak_rss_bytes(child.pid))
        time.sleep(0.005)
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
    seconds = time.monotonic() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise subprocess.CalledProcessError(child.returncode, argv)
    return Cost(seconds, usage.ru_utime + usage.ru_stime, peak)


class Result:
    def __init__(self, trace, total_cpu_ns, peak_pss):
        self.trace, self.cpu_ns, self.peak_pss = trace, total_cpu_ns, peak_pss


class Run:
    """A recording under way. The end of the process `lead` ends the recording. The processes
    `others` are stopped after `lead`."""

    def __init__(self, lead, lead_pid, others, trace, stop_others):
        self.lead, self.lead_pid, self.others = lead, lead_pid, others
        self.trace, self.stop_others = trace, stop_others
        self.cpu_at_start = {pid: cpu_ns(pid) for pid in self.pids()}
        self.cpu_at_end = dict(self.cpu_at_start)

    def pids(self):
        return [self.lead_pid, *self.others]

    def pss_bytes(self):
        return sum(pss_bytes(pid) for pid in self.pids())

    def has_ended(self):
        return self.lead.poll() is not None

    def sample(self, ended, peak):
        while not ended.is_set():
            for pid in self.pids():
                self.cpu_at_end[pid] = max(self.cpu_at_end[pid], cpu_ns(pid))
            peak[0] = max(peak[0], self.pss_bytes())
            time.sleep(SAMPLE_S)

    def finish(self):
        ended, peak = threading.Event(), [0]
        sampler = threading.Thread(target=self.sample, args=(ended, peak))
        sampler.start()
        try:
            if not self.has_ended():
                self.lead.send_signal(signal.SIGTERM)
            self.lead.wait(60)
        finally:
            ended.set()
            sampler.join()
            for pid in self.others:
                self.cpu_at_end[pid] = max(self.cpu_at_end[pid], cpu_ns(pid))
            self.stop_others()
        total = sum(self.cpu_at_end[pid] - self.cpu_at_start[pid] for pid in self.pids())
        return Result(self.trace, total, peak[0])


class Mmtrace:
    name = "mmtrace"

    def __init__(self, program, tmp):
        self.program, self.tmp = program, tmp

    def start(self, name, text):
        config_file, trace = self.tmp / "ours.cfg", self.tmp / f"ours-{name}.pftrace"
        config_file.write_text(text)
        trace.unlink(missing_ok=True)
        child = subprocess.Popen([self.program, "record", "--quiet", "--no-daemon", "-c",
                                  config_file,
                                  "-o", trace], start_new_session=True)
        time.sleep(START_S)
        if child.poll() is not None:
            raise RuntimeError(f"mmtrace record ended early with exit code {child.returncode}")
        return Run(child, child.pid, [], trace, lambda: None)


def main_buffer():
    """The settings of the kernel's main trace buffer that a recorder may change. The size of an
    unused buffer is the size that its first use would give it."""
    found = {}
    for name in ("trace_clock", "buffer_size_kb", "tracing_on"):
        try:
            text = (TRACEFS / name).read_text()
        except OSError:
            continue
        if name == "trace_clock":
            found[name] = text[text.index("[") + 1:text.index("]")]
        else:
            found[name] = text.rstrip(")\n").split()[-1]
    return found


def restore_main_buffer(found):
    for name, value in found.items():
        with contextlib.suppress(OSError):
            (TRACEFS / name).write_text(value)


class Perfetto:
    """traced and traced_probes with sockets of their own, and the perfetto client.

    They leave the kernel's main trace buffer small and switched off, which is undone.
    """

    name = "perfetto"

    def __init__(self, root, programs, tmp):
        self.root, self.programs, self.tmp = root, programs, tmp
        self.env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
                    "PERFETTO_PRODUCER_SOCK_NAME": "/tmp/mmtrace-bench-producer",
                    "PERFETTO_CONSUMER_SOCK_NAME": "/tmp/mmtrace-bench-consumer"}

    def spawn(self, program, *arguments):
        argv = [self.programs[program], *map(str, arguments)]
        if self.root:
            mounts = "".join(f'mount --rbind {d} "$0{d}" && ' for d in ("/proc", "/sys", "/dev"))
            script = (f'{mounts} mkdir -p "$0{self.tmp}" && mount --bind {self.tmp} "$0{self.tmp}" '
                      '&& exec chroot "$0" "$@"')
            argv = ["unshare", "--mount", "sh", "-c", script, str(self.root), *argv]
        return subprocess.Popen(argv, env=self.env, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, start_new_session=True)

    def version(self):
        argv = [self.programs["perfetto"], "--version"]
        if self.root:
            argv = ["chroot", str(self.root), *argv]
        return subprocess.run(argv, capture_output=True, text=True, env=self.env).stdout.strip()

    def start(self, name, text):
        self.main_buffer = main_buffer()
        config_file, trace = self.tmp / "peer.cfg", self.tmp / f"peer-{name}.pftrace"
        config_file.write_text(text)
        trace.unlink(missing_ok=True)
        daemons = []
        try:
            for program in ("traced", "traced_probes"):
                daemons.append(self.spawn(program))
                time.sleep(0.5)
            client = self.spawn("perfetto", "--txt", "-c", config_file, "-o", trace)
            time.sleep(START_S)
            early = [p for p in (*daemons, client) if p.poll() is not None]
            if early:
                raise RuntimeError(f"{early[0].args} ended early")
        except BaseException:
            self.stop(daemons)
            raise
        return Run(client, client.pid, [d.pid for d in daemons], trace, lambda: self.stop(daemons))

    def stop(self, daemons):
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(10)
        restore_main_buffer(self.main_buffer)
        if self.root:
            shutil.rmtree(f"{self.root}{self.tmp}", ignore_errors=True)


def find_perfetto(root, tmp):
    """The peer, or None where its programs are not installed."""
    places = "/usr/bin:/usr/sbin:/bin:/sbin" if root else os.environ["PATH"] + ":/usr/sbin"
    programs = {}
    for program in PEER_PROGRAMS:
        for place in places.split(":"):
            if os.access(f"{root or ''}{place}/{program}", os.X_OK):
                programs.setdefault(program, f"{place}/{program}")
    return Perfetto(root, programs, tmp) if len(programs) == len(PEER_PROGRAMS) else None
