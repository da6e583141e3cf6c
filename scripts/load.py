# SPDX-License-Identifier: Apache-2.0
"""The two loads of ./quickstart: a harmless one, and real memory pressure that always ends.

Pressure raises vm.min_free_kbytes to the brink: where no zone has pages above its low watermark any more, and
one has a few above its minimum. Then every allocation makes the kernel reclaim page cache, of which a file
was read in before, so that there is always enough to find. The old value comes back three times over:
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
MARGIN_BYTES = 8 * MIB
N_ROUNDS = 3
ALLOCATE_BYTES = 64 * MIB
WATCH_LIMIT_S = 60


def zones():
    """(free, managed) of each memory zone, in pages; free is what lies above the zone's protection."""
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
    return found


def brink_kb(room_bytes):
    """The vm.min_free_kbytes that leaves allocations `room_bytes` until no zone has anything above its minimum.

    The kernel gives each zone a part of min_free_kbytes as its minimum, by the zone's size. Zones do not
    empty evenly: the one with the largest part free decides.
    """
    total = sum(managed for _, managed in zones())
    room = room_bytes // mmap.PAGESIZE
    return max(int((free - room) * total / managed) for free, managed in zones()) * PAGE_KB


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
    """Reclaim for real, for BURST_LIMIT_S at most.

    There is always more clean page cache (the file) than is allocated at once: the kernel finds what to
    reclaim, and never has to kill. The file is read in while only the zone that decides has room, so that
    what is reclaimed counts there.
    """
    deadline = time.monotonic() + BURST_LIMIT_S
    size = os.path.getsize(path)
    for _ in range(N_ROUNDS):
        if time.monotonic() > deadline:
            break
        drop_pages(path, 0, size)
        try:
            raise_min_free(old_kb, size + size // 4)
            read_file(path, deadline=deadline)
            raise_min_free(old_kb, MARGIN_BYTES)
            for part in range(4):
                allocate(ALLOCATE_BYTES)
                read_file(path, part * size // 8, (part + 1) * size // 8, deadline)
        finally:
            MIN_FREE.write_text(str(old_kb))


def raise_min_free(old_kb, room_bytes):
    MIN_FREE.write_text(str(max(old_kb, brink_kb(room_bytes))))


def allocate(size):
    """Have the kernel find that much memory at once, and give it back."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0x8000)
    mmap.mmap(-1, size, flags=flags).close()
