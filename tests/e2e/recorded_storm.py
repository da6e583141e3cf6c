# SPDX-License-Identifier: Apache-2.0
"""Records shortages of memory, for the tests of the report and the pictures in the documentation.

In a memory cgroup, "viewer" reads two files again and again. "exporter" grows beside it: the
kernel evicts the files' pages to make room, the viewer waits and reads them back, until the kernel
kills the exporter. Outside of the group, "cache" grows under a heap profile. Only the group is
short of memory: the machine is not disturbed.

Further traces are for the cookbook: the same story, while pintool holds pages of photos.db; and
three boots of a small system in a memory cgroup, the second with too little memory.

usage: recorded_storm.py FOLDER
"""
import contextlib
import pathlib
import subprocess
import sys
import tempfile
import time

import lib
import states

sys.path.insert(0, str(lib.ROOT / "scripts"))
import load  # noqa: E402

MIB = 1 << 20
LIMIT = 224 * MIB
FILES = {"photos.db": 96, "index.bin": 48, "tiles.pak": 32, "fonts.ttc": 8}
HOT = ("photos.db", "index.bin")  # the viewer reads these
NAMES = ("viewer", "exporter", "cache")
QUOTA = "16MB"  # of the pages that are held
BOOTS_MIB = (512, 64, 512)  # the limit of each boot
SERVICES = {"settings": ["fonts.ttc"], "database": ["index.bin"], "gallery": ["photos.db"],
            "desktop": []}  # the system starts them in this order

CONFIG = """
buffers {{ size_kb: 32768 fill_policy: RING_BUFFER }}
buffers {{ size_kb: 8192 fill_policy: RING_BUFFER }}
compression_type: COMPRESSION_TYPE_DEFLATE
data_sources {{ config {{ name: "linux.ftrace" target_buffer: 0 ftrace_config {{
  ftrace_events: "vmscan/mm_vmscan_direct_reclaim_begin"
  ftrace_events: "vmscan/mm_vmscan_direct_reclaim_end"
  ftrace_events: "vmscan/mm_vmscan_memcg_reclaim_begin"
  ftrace_events: "vmscan/mm_vmscan_memcg_reclaim_end"
  ftrace_events: "vmscan/mm_vmscan_kswapd_wake"
  ftrace_events: "vmscan/mm_vmscan_kswapd_sleep"
  ftrace_events: "compaction/mm_compaction_begin"
  ftrace_events: "compaction/mm_compaction_end"
  ftrace_events: "oom/mark_victim"
  ftrace_events: "sched/sched_process_free"
  buffer_size_kb: 4096
  drain_period_ms: 250
}} }} }}
data_sources {{ config {{ name: "linux.sys_stats" target_buffer: 1 sys_stats_config {{
  vmstat_period_ms: 200 meminfo_period_ms: 1000 psi_period_ms: 200
}} }} }}
data_sources {{ config {{ name: "linux.process_stats" target_buffer: 1 process_stats_config {{
  scan_all_processes_on_start: true proc_stats_poll_ms: 200
}} }} }}
data_sources {{ config {{ name: "linux.page_residency" target_buffer: 1 page_residency_config {{
  paths: "{files}" period_ms: 200 detail: DETAIL_RANGES
}} }} }}
data_sources {{ config {{ name: "linux.heap" target_buffer: 1 heapprofd_config {{
  sampling_interval_bytes: 4096 pid: {pid}
}} }} }}
data_sources {{ config {{ name: "linux.system_info" target_buffer: 1 }} }}
"""

BOOT_CONFIG = """
buffers {{ size_kb: 32768 fill_policy: RING_BUFFER }}
compression_type: COMPRESSION_TYPE_DEFLATE
data_sources {{ config {{ name: "linux.ftrace" ftrace_config {{
  ftrace_events: "task/task_newtask"
  ftrace_events: "task/task_rename"
  ftrace_events: "sched/sched_process_exit"
  ftrace_events: "sched/sched_process_free"
  ftrace_events: "vmscan/mm_vmscan_direct_reclaim_begin"
  ftrace_events: "vmscan/mm_vmscan_direct_reclaim_end"
  ftrace_events: "vmscan/mm_vmscan_memcg_reclaim_begin"
  ftrace_events: "vmscan/mm_vmscan_memcg_reclaim_end"
  buffer_size_kb: 4096
}} }} }}
data_sources {{ config {{ name: "linux.process_stats" process_stats_config {{
  scan_all_processes_on_start: true
}} }} }}
data_sources {{ config {{ name: "linux.page_residency" page_residency_config {{
  paths: "{files}" period_ms: 100 detail: DETAIL_RANGES
}} }} }}
"""

# Gives the process the name that is the first argument.
NAME = """
import sys, time
open("/proc/self/comm", "w").write(sys.argv.pop(1))
"""
# Reads its files until it is killed.
VIEWER = NAME + """
while True:
    for path in sys.argv[2:]:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
    time.sleep(float(sys.argv[1]))
"""
# Starts services, each when the one before has read its files.
STARTER = NAME + """
import subprocess
for service in sys.argv[3:]:
    name = service.split()[0]
    subprocess.run([name, "-c", sys.argv[2], *service.split()], executable=sys.argv[1], check=True)
"""
# Reads its files, because it needs them again and again.
SERVICE = NAME + """
for path in 12 * sys.argv[1:]:
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
"""
# Grows without end, by objects of several kinds.
GROWER = NAME + """
import json, zlib
kept = []
text = json.dumps([{"id": n, "name": "picture %d" % n} for n in range(2000)])
def thumbnails():
    for n in range(64):
        kept.append(bytearray(b"x") * 16384)
def originals():
    kept.append(bytearray(b"x") * (2 << 20))
def catalogue():
    kept.append(json.loads(text))
def index():
    kept.append({str(n): n for n in range(4000)})
def archive():
    kept.append(zlib.compressobj())
while True:
    for step in (thumbnails, originals, catalogue, index, archive):
        step()
    time.sleep(float(sys.argv[1]))
"""


@contextlib.contextmanager
def program(name, text, *arguments, enter=None):
    """A Python program under another name."""
    process = subprocess.Popen([name, "-c", text, name, *map(str, arguments)],
                               executable=sys.executable, preexec_fn=enter)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def files_make(folder):
    for name, size in FILES.items():
        load.make_file(folder / name, size * MIB)
        if name in HOT:  # so that the group is charged for the pages, as their first reader
            load.drop_pages(folder / name, 0, size * MIB)


class Story:
    """The viewer reads its files, and the cache grows. The exporter comes later."""

    def __init__(self, files, cache, enter):
        self.files, self.cache, self.enter = files, cache, enter

    def exporter(self):
        return program("exporter", GROWER, 0.12, enter=self.enter)


@contextlib.contextmanager
def story():
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(
            tempfile.TemporaryDirectory(prefix="storm-", dir="/var/tmp")))
        files = folder / "gallery"
        files.mkdir()
        files_make(files)
        enter = stack.enter_context(lib.memory_cgroup(LIMIT))
        cache = stack.enter_context(program("cache", GROWER, 0.3))
        stack.enter_context(program("viewer", VIEWER, 0.1, *(files / name for name in HOT),
                                    enter=enter))
        yield Story(files, cache, enter)


@contextlib.contextmanager
def recorder(trace, config, text, limit_s=60):
    """Records until the end of the block, which takes less than the limit."""
    config.write_text(text)
    process = subprocess.Popen([lib.MMTRACE, "record", "-c", config, "-t", f"{limit_s}s", "-o",
                                trace, "--no-verdict"])
    try:
        yield process
    finally:
        process.terminate()
        if process.wait() != 0:
            raise AssertionError(f"the recording of {trace} failed")


@contextlib.contextmanager
def held(pinlist, path, enter):
    """pintool holds the pages of a list."""
    process = subprocess.Popen([lib.PINTOOL, "lock", pinlist, path], stdout=subprocess.PIPE,
                               text=True, preexec_fn=enter)
    try:
        if "locked" not in process.stdout.readline():
            raise AssertionError(f"{path}: its pages are not held")
        yield
    finally:
        process.terminate()
        process.communicate()


def record(trace, pinlist=None, limit_s=60):
    """Records until the kernel has killed the exporter and the files are back. The pinlist is of
    photos.db."""
    with contextlib.ExitStack() as stack:
        told = stack.enter_context(story())
        if pinlist:
            stack.enter_context(held(pinlist, told.files / "photos.db", told.enter))
        stack.enter_context(recorder(trace, told.files.parent / "storm.cfg", CONFIG.format(
            files=told.files, pid=told.cache.pid), limit_s))
        time.sleep(2.5)  # a while without pressure comes first
        exporter = stack.enter_context(told.exporter())
        killed = exporter.wait(limit_s)
        time.sleep(2.5)
    if killed != -9:
        raise AssertionError(f"the exporter ended with {killed}")
    return trace


def suggest(trace, folder):
    """The pinlist that pintool suggests for photos.db, from a recording."""
    found = lib.run(lib.MMSQL, "query", "-q", "--csv", trace, "SELECT path FROM "
                    "page_residency_file WHERE path GLOB '*/photos.db'").stdout.splitlines()
    stand_in, pinlist = folder / "photos.db", folder / "photos.meta"
    with open(stand_in, "wb") as file:
        file.truncate(FILES["photos.db"] * MIB)
    done = lib.run(lib.PINTOOL, "suggest", trace, "--file", stand_in, "--recorded-as", found[-1],
                   "--quota", QUOTA, "-o", pinlist, "--mmsql", lib.MMSQL)
    if done.returncode:
        raise AssertionError(done.stderr)
    return pinlist


def record_boot(trace, limit):
    """Records the start of the services in a memory cgroup with a limit."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(
            tempfile.TemporaryDirectory(prefix="boot-", dir="/var/tmp")))
        files = folder / "gallery"
        files.mkdir()
        files_make(files)
        for name, size in FILES.items():
            load.drop_pages(files / name, 0, size * MIB)
        enter = stack.enter_context(lib.memory_cgroup(limit))
        process = stack.enter_context(recorder(trace, folder / "boot.cfg",
                                               BOOT_CONFIG.format(files=files)))
        states.wait_for_recorder(process.pid)
        states.wait_for_loop(process.pid)
        with program("starter", STARTER, sys.executable, SERVICE, *(
                " ".join([name, *(str(files / each) for each in needed)])
                for name, needed in SERVICES.items()), enter=enter) as starter:
            if starter.wait(60) != 0:
                raise AssertionError("a service failed")


def record_more(storm):
    """The other traces of docs/cookbook.md, beside the first one. Returns their paths."""
    pinned = storm.with_name("pinned.pftrace")
    with tempfile.TemporaryDirectory(prefix="storm-") as folder:
        record(pinned, suggest(storm, pathlib.Path(folder)))
    boots = [storm.with_name(f"boot-{n}.pftrace") for n in range(1, len(BOOTS_MIB) + 1)]
    for boot, limit in zip(boots, BOOTS_MIB):
        record_boot(boot, limit * MIB)
    return [pinned, *boots]


if __name__ == "__main__":
    record_more(record(pathlib.Path(sys.argv[1]).resolve() / "storm.pftrace"))
