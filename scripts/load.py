# SPDX-License-Identifier: Apache-2.0
"""The two loads of ./quickstart: a harmless one, and real memory pressure that always ends.

Pressure raises vm.min_free_kbytes to the brink: where no memory zone has pages above its low watermark any more,
and the largest has a few above its minimum. Then every allocation makes the kernel reclaim page cache, of which
a file was read into that zone before: what is reclaimed there lifts it above its minimum again, so that the
kernel always finds enough and never has to kill. The other zones are brought to the same level by a ballast.
The old value comes back three times over:
after every burst, on every way out of the with block, and from a child process that waits for its
parent to go away or for the time limit, whatever killed it. Only one process at a time does this, or one
would take another's raised value for the one to put back: a lock lies on the kernel's file itself, and
the child holds it, too, until the value is back.
"""
import contextlib
import fcntl
import mmap
import os
import pathlib
import signal
import time

MIB = 1 << 20
PAGE_KB = mmap.PAGESIZE // 1024
MIN_FREE = pathlib.Path("/proc/sys/vm/min_free_kbytes")
COMPACT = pathlib.Path("/proc/sys/vm/compact_memory")
ZONEINFO = pathlib.Path("/proc/zoneinfo")
BURST_LIMIT_S = 3
MARGIN_BYTES = 4 * MIB
BALLAST_LIMIT_BYTES = 3 << 30
LOW_WATERMARK = 1.24
N_TRIES = 3
N_ROUNDS = 3
N_ALLOCATIONS = 4
ALLOCATE_BYTES = 192 * MIB
WATCH_LIMIT_S = 60


def zones():
    """(free, managed) of each memory zone, the largest first, in pages; free is what lies above its protection."""
    found = []
    free = managed = 0
    for line in ZONEINFO.read_text().splitlines():
        words = line.replace("(", " ").replace(")", " ").replace(",", " ").split()
        if words[:2] == ["pages", "free"]:
            free = int(words[2])
        elif words[:1] == ["managed"]:
            managed = int(words[1])
        elif words[:1] == ["protection:"] and managed:
            found.append((max(0, free - max(map(int, words[1:]))), managed))
    return sorted(found, key=lambda zone: -zone[1])


def brink_kb(room_bytes):
    """The vm.min_free_kbytes that puts the largest zone's minimum `room_bytes` below what it has free.

    The kernel gives each zone a part of min_free_kbytes as its minimum, by the zone's size.
    """
    found = zones()
    free, managed = found[0]
    room = room_bytes // mmap.PAGESIZE
    return int((free - room) * sum(size for _, size in found) / managed) * PAGE_KB


def ballast_bytes():
    """What the other zones have free beyond the share that the largest zone has."""
    (free, managed), *others = zones()
    return sum(max(0, int(other_free - free / managed * other)) for other_free, other in others) * mmap.PAGESIZE


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
    """Reclaim for real, for BURST_LIMIT_S at most; returns the process that did it.

    It is a process of its own, so that the kernel, should it have to kill after all, takes that one.
    """
    child = os.fork()
    if child == 0:
        try:
            pathlib.Path("/proc/self/oom_score_adj").write_text("1000")
            before = n_stalls()
            for _ in range(N_TRIES):
                reclaim(path, old_kb)
                if n_stalls() > before:
                    break
        finally:
            MIN_FREE.write_text(str(old_kb))
            os._exit(0)
    os.waitpid(child, 0)
    MIN_FREE.write_text(str(old_kb))
    return child


def n_stalls():
    """How often an allocation had to reclaim by itself."""
    lines = pathlib.Path("/proc/vmstat").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("allocstall"))


def reclaim(path, old_kb):
    drop_pages(path, 0, os.path.getsize(path))
    read_file(path)
    if ballast_bytes() > BALLAST_LIMIT_BYTES:
        return
    with allocated(add_ballast(old_kb)):
        deadline = time.monotonic() + BURST_LIMIT_S
        for _ in range(N_ROUNDS):
            read_file(path)
            MIN_FREE.write_text(str(max(old_kb, brink_kb(MARGIN_BYTES))))
            for _ in range(N_ALLOCATIONS):
                with allocated(ALLOCATE_BYTES):
                    pass
            MIN_FREE.write_text(str(old_kb))
            if time.monotonic() > deadline:
                break


def add_ballast(old_kb):
    """How much it takes; it will go where it belongs.

    With the largest zone below its low watermark (a quarter above the minimum), and the others above theirs,
    the kernel takes from the others, and does not reclaim yet.
    """
    size = ballast_bytes()
    if size:
        MIN_FREE.write_text(str(max(old_kb, int(brink_kb(0) / LOW_WATERMARK))))
    return size


@contextlib.contextmanager
def allocated(size):
    """Have the kernel find that much memory at once, and give it back."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0x8000)
    memory = mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=flags)
    try:
        yield
    finally:
        memory.close()
