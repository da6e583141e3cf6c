# SPDX-License-Identifier: Apache-2.0
"""The two loads of ./quickstart: a harmless one, and real memory pressure that always ends.

Pressure raises vm.min_free_kbytes beyond the brink: where the largest memory zone has less free than its minimum.
Then the next allocation makes the kernel reclaim page cache, of which a file was read into that zone before: what is
reclaimed there lifts it above its minimum again, so that the kernel always finds enough and never has to kill.
The other zones are brought to the same level by a ballast. kswapd, which anybody may wake, frees a file of half a GiB
within milliseconds: what lacks must be a good part of the file, or it is there again before the allocation
looks for it.
The old value comes back three times over:
after every burst, on every way out of the with block, and from a child process that waits for its
parent to go away or for the time limit, whatever killed it. Only one process at a time does this, or one
would take another's raised value for the one to put back: a lock lies on the kernel's file itself, and
the child holds it, too, until the value is back.
"""
import collections
import contextlib
import fcntl
import mmap
import os
import pathlib
import signal
import sys
import time

MIB = 1 << 20
PAGE_KB = mmap.PAGESIZE // 1024
MIN_FREE = pathlib.Path("/proc/sys/vm/min_free_kbytes")
COMPACT = pathlib.Path("/proc/sys/vm/compact_memory")
OOM_SCORE = pathlib.Path("/proc/self/oom_score_adj")
ZONEINFO = pathlib.Path("/proc/zoneinfo")
BURST_LIMIT_S = 3
BEYOND_BYTES = 256 * MIB
BALLAST_LIMIT_BYTES = 3 << 30
LOW_WATERMARK = 1.249  # of the minimum; the kernel's is 1.25
RECLAIMABLE_BYTES = 448 * MIB
N_STEPS = 8
STEP_BYTES = 32 * MIB
WATCH_LIMIT_S = 60

Zone = collections.namedtuple("Zone", "managed free cached")  # pages; free is what lies above its protection


def zones():
    """The memory zones, the largest first."""
    found = []
    for line in ZONEINFO.read_text().splitlines():
        words = line.replace("(", " ").replace(")", " ").replace(",", " ").split()
        if words[:2] == ["pages", "free"]:
            free, cached = int(words[2]), 0
        elif words[:1] == ["managed"]:
            managed = int(words[1])
        elif words[:1] in (["nr_zone_inactive_file"], ["nr_zone_active_file"]):
            cached += int(words[1])
        elif words[:1] == ["protection:"]:
            protection = max(map(int, words[1:]))
        elif words[:1] == ["start_pfn:"] and managed:
            found.append(Zone(managed, max(0, free - protection), cached))
    return sorted(found, reverse=True)


def brink_kb(beyond_bytes):
    """The vm.min_free_kbytes that puts the largest zone's minimum `beyond_bytes` above what it has free.

    The kernel gives each zone a part of min_free_kbytes as its minimum, by the zone's size.
    """
    found = zones()
    minimum = found[0].free + beyond_bytes // mmap.PAGESIZE
    return int(minimum * sum(zone.managed for zone in found) / found[0].managed) * PAGE_KB


def ballast_bytes():
    """What the other zones have free beyond the share that the largest zone has."""
    largest, *others = zones()
    share = largest.free / largest.managed
    return sum(max(0, int(zone.free - share * zone.managed)) for zone in others) * mmap.PAGESIZE


def make_file(path, size):
    """A file whose pages are written out, so that they can be dropped at any time."""
    with open(path, "wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(4096) * (MIB // 4096))
        file.flush()
        os.fsync(file.fileno())


def read_file(path, start=0, end=None, deadline=None):
    """Read [start, end) through the page cache."""
    with open(path, "rb", buffering=0) as file:
        end = os.fstat(file.fileno()).st_size if end is None else end
        file.seek(start)
        while start < end and (deadline is None or time.monotonic() < deadline):
            start += len(file.read(min(MIB, end - start))) or end


def drop_pages(path, start, end):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(fd, start, end - start, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def compact():
    with contextlib.suppress(OSError):
        COMPACT.write_text("1")


def step_harmless(path, n):
    """One step of the load: parts of the file leave the cache and come back, memory is compacted."""
    size = os.path.getsize(path)
    quarter = size // 4
    if n % 2 == 0:
        drop_pages(path, (n // 2 % 4) * quarter, (n // 2 % 4 + 1) * quarter)
        compact()
    else:
        read_file(path, ((n // 2 + 2) % 4) * quarter, ((n // 2 + 2) % 4) * quarter + quarter // 2)


def lock_min_free():
    """Waits until nobody has the value raised; the file, which holds the lock until it is closed."""
    file = open(MIN_FREE)
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def settled_min_free_kb():
    """The value while nobody has it raised."""
    with lock_min_free() as file:
        return int(file.read())


@contextlib.contextmanager
def restored_min_free():
    """Yields the present value and puts it back, even if this process is killed. Waits for others who do the same."""
    with lock_min_free() as file:
        old = file.read()
        read_end, write_end = os.pipe()
        watcher = os.fork()
        if watcher == 0:
            watch(read_end, write_end, old)
        os.close(read_end)
        try:
            yield int(old)
        finally:
            MIN_FREE.write_text(old)
            os.close(write_end)
            os.waitpid(watcher, 0)


def watch(read_end, write_end, old):
    """The child: restore when the other end of the pipe closes, or after the time limit."""
    import select

    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    os.close(write_end)
    select.select([read_end], [], [], WATCH_LIMIT_S)
    MIN_FREE.write_text(old)
    os._exit(0)


def burst(path, old_kb):
    """Reclaim for real, for BURST_LIMIT_S and a step more at most; returns the process that did it.

    It is a process of its own, so that the kernel, should it have to kill after all, takes that one.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            OOM_SCORE.write_text("1000")
            reclaim(path, old_kb)
            status = 0
        except OSError as error:
            print(f"memory pressure: {error}", file=sys.stderr)
        finally:
            MIN_FREE.write_text(str(old_kb))
            os._exit(status)
    _, status = os.waitpid(child, 0)
    MIN_FREE.write_text(str(old_kb))
    if status != 0:
        raise OSError("the process that was to cause memory pressure did not end well")
    return child


def reclaim(path, old_kb):
    """Allocate beyond the brink, again and again.

    What is allocated is kept meanwhile: the kernel would put it on the lists of the processor, which grow with
    min_free_kbytes, and give it back from there. Others take and free memory, too, so the brink is found anew
    for each step, and the file, most of which each step reclaims, is read again.
    """
    deadline = time.monotonic() + BURST_LIMIT_S
    read_anew(path)
    ballast = ballast_bytes()
    if ballast > BALLAST_LIMIT_BYTES:
        raise OSError("the memory zones differ too much in what they have free")
    with contextlib.ExitStack() as kept:
        MIN_FREE.write_text(str(max(old_kb, int(brink_kb(0) / LOW_WATERMARK))))
        kept.enter_context(allocated(ballast))
        for _ in range(N_STEPS):
            if zones()[0].cached < RECLAIMABLE_BYTES // mmap.PAGESIZE:
                MIN_FREE.write_text(str(old_kb))
                read_anew(path)
            MIN_FREE.write_text(str(max(old_kb, brink_kb(BEYOND_BYTES))))
            kept.enter_context(allocated(STEP_BYTES))
            if time.monotonic() > deadline:
                break


def read_anew(path):
    """Have the file's pages in the largest zone, from which the kernel takes first while it has enough."""
    drop_pages(path, 0, os.path.getsize(path))
    read_file(path)
    if zones()[0].cached < RECLAIMABLE_BYTES // mmap.PAGESIZE:
        raise OSError("the largest memory zone has too little page cache to reclaim")


@contextlib.contextmanager
def allocated(size):
    """Have the kernel find that much memory at once, and give it back at the end."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0x8000)
    memory = mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=flags)
    try:
        yield
    finally:
        memory.close()
