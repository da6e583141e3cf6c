# SPDX-License-Identifier: Apache-2.0
"""The two loads of ./quickstart and of the tests: a harmless one, and real memory pressure.

Pressure is page cache that cannot fit. Two readers go through sparse files that are together larger
than the memory. Each page that they read is a page of zeros in the page cache, so that the kernel
wakes kswapd, and the readers soon have to reclaim on their own. More readers come where kswapd
keeps up with them, and where other programs leave them too little of the processors. Nothing needs
a disk, a sysctl or an assumption about memory zones, and every page can be dropped at any time.

The memory is the memory of the machine, or less if a memory cgroup has a limit. In such a group the
readers reclaim within the group, and kswapd sleeps on. A group of its own is also the last resort
of pressure_anyway(): a small group is full soon, however busy the machine is.

Pressure ends when the kernel has reclaimed enough, or after a time limit. The files lose their
names before the reading begins. The kernel would kill the readers first, and the readers end with
their parent. So nothing is left behind in any case.
"""
import contextlib
import ctypes
import mmap
import os
import pathlib
import signal
import struct
import tempfile
import time

MIB = 1 << 20
MEMINFO = pathlib.Path("/proc/meminfo")
VMSTAT = pathlib.Path("/proc/vmstat")
COMPACT = pathlib.Path("/proc/sys/vm/compact_memory")
OOM_SCORE = pathlib.Path("/proc/self/oom_score_adj")
CGROUPS = pathlib.Path("/sys/fs/cgroup")
N_READERS = 2  # at first; then twice as many, and so on
READERS_MAX = 16
BEYOND = 1.15  # the bytes that a round of all readers reads, as a share of the memory
MORE_AFTER_S = 10  # then, or after a round, more readers begin
N_STALLS = 50  # direct reclaims that are enough
LIMIT_S = 150  # a few seconds are enough, unless all processors are busy
PATIENCE_S = 90  # then a group takes the place of the machine
GROUP_BYTES = 64 * MIB  # full soon, even in an emulated machine
PR_SET_PDEATHSIG = 1


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
    """One step of the load: parts of the file leave the cache and come back, memory is
    compacted."""
    size = os.path.getsize(path)
    quarter = size // 4
    if n % 2 == 0:
        drop_pages(path, (n // 2 % 4) * quarter, (n // 2 % 4 + 1) * quarter)
        compact()
    else:
        begin = ((n // 2 + 2) % 4) * quarter
        read_file(path, begin, begin + quarter // 2)


def machine_bytes():
    """The memory that this machine can have: in a young virtual machine MemTotal still grows."""
    for line in MEMINFO.read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{MEMINFO}: no MemTotal")


def group_folders():
    """(folder, name of the limit) of this process's memory cgroup and of each that it is in."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            roots, name = (CGROUPS, CGROUPS / "unified"), "memory.max"
        elif "memory" in controllers.split(","):
            roots, name = (CGROUPS / "memory",), "memory.limit_in_bytes"
        else:
            continue
        for root in roots:
            folder = root / path.strip("/")
            yield from ((each, name) for each in (folder, *folder.parents)
                        if each == root or root in each.parents)


def group_bytes():
    """The least limit of the memory cgroups that this process is in; None without a limit."""
    limits = []
    for folder, name in group_folders():
        with contextlib.suppress(OSError, ValueError):
            limits.append(int((folder / name).read_text()))
    return min(limits, default=None)


def make_group(limit_bytes):
    """A new memory cgroup with a limit: its folder. Raises OSError where this user can make
    none."""
    for root, limit in ((CGROUPS / "memory", "memory.limit_in_bytes"),
                        (CGROUPS, "memory.max"),
                        (CGROUPS / "unified", "memory.max")):
        group = root / f"mmtrace-{os.getpid()}-{time.monotonic_ns()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            # not on the tmpfs that holds the hierarchies of v1
            if (group / "cgroup.procs").exists():
                (group / limit).write_text(str(limit_bytes))
                return group
        except OSError:
            pass
        group.rmdir()
    raise OSError(f"{CGROUPS}: no memory cgroup can be made here (needs root, and v1 or v2 with its"
                  " memory controller)")


def remove_group(group):
    """Removes the group. Its processes move to the group above. Returns whether it is gone."""
    with contextlib.suppress(OSError):
        for pid in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(pid)
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


@contextlib.contextmanager
def memory_cgroup(limit_bytes):
    """A memory cgroup with a limit; yields a function that moves the calling process into it.

    The group is removed at the end; processes still in the group move to the group above.
    """
    group = make_group(limit_bytes)
    try:
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        # The kernel may still be busy with processes that have just ended.
        deadline = time.monotonic() + 60
        while not remove_group(group) and time.monotonic() < deadline:
            time.sleep(0.05)


def n_stalls():
    """The number of direct reclaims since boot, without reclaims in memory cgroups."""
    return sum(int(line.split()[1]) for line in VMSTAT.read_text().splitlines()
               if line.startswith("allocstall"))


def sparse_file(folder, size):
    """A file without a name and without blocks, as long as `size`. The caller closes it."""
    fd, name = tempfile.mkstemp(prefix="mmtrace-pressure-", dir=folder)
    os.unlink(name)
    try:
        os.ftruncate(fd, size)
    except OSError as error:
        os.close(fd)
        raise OSError(f"{folder}: no sparse file of {size} bytes: {error.strerror}"
                      " (choose a folder on another file system)") from error
    return fd


def read_some(fd, nowhere, buffer):
    """Reads up to 1 MiB into the page cache; returns the number of bytes, 0 at the end. No byte is
    copied, unless the file system cannot splice: copies make the reading ten times as slow."""
    try:
        return os.sendfile(nowhere, fd, None, MIB)
    except OSError:
        return os.readv(fd, [buffer])


def read_until_killed(fd, done, n):
    """The child: read the file again and again, and count the bytes in `done[n]`."""
    nowhere, buffer, total = os.open(os.devnull, os.O_WRONLY), bytearray(MIB // 16), 0
    while True:
        size = read_some(fd, nowhere, buffer)
        if size == 0:
            os.lseek(fd, 0, os.SEEK_SET)
        total += size
        struct.pack_into("Q", done, 8 * n, total)


@contextlib.contextmanager
def reading(fd, done, n, join):
    """A process that calls `join` and reads the file until the block ends. Yields its pid."""
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            OOM_SCORE.write_text("1000")
            join()
            if os.getppid() == parent:
                read_until_killed(fd, done, n)
        finally:
            os._exit(1)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def is_going_on(pids):
    """False if the kernel has killed a reader. The reader is not reaped here."""
    return not any(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) for pid in pids)


class Goal:
    """How much the readers read, and when that is enough."""

    def __init__(self, n_wanted, limit=None):
        """`limit`: the limit of the readers' own memory cgroup."""
        memory, limit = machine_bytes(), limit or group_bytes()
        self.is_group = limit is not None and limit < memory
        self.limit = limit if self.is_group else memory
        self.round = int(self.limit * BEYOND)
        self.wanted = n_stalls() + n_wanted

    def is_reached(self, n_distinct):
        """`n_distinct`: the bytes that were read, without bytes that were read again."""
        if self.is_group:
            return n_distinct > (self.limit + self.round) // 2
        return n_stalls() >= self.wanted


class Readers:
    """A growing number of processes that read sparse files. Use as a context manager."""

    def __init__(self, folder, file_bytes, join, keep):
        self.folder, self.file_bytes, self.join, self.keep = folder, file_bytes, join, keep
        self.pids = []

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.done = stack.enter_context(mmap.mmap(-1, mmap.PAGESIZE))
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        return self.stack.__exit__(*exception)

    def add(self):
        """Doubles the number of readers."""
        for n in range(len(self.pids), 2 * len(self.pids) or N_READERS):
            fd = sparse_file(self.folder, self.file_bytes)
            (self.keep or self.stack).callback(os.close, fd)
            self.pids.append(self.stack.enter_context(reading(fd, self.done, n, self.join)))

    def counts(self):
        return struct.unpack_from(f"{len(self.pids)}Q", self.done)

    def n_bytes(self):
        return sum(self.counts())

    def n_distinct(self):
        """A reader that is alone on the processors begins its file again. Pages that are read again
        need no memory."""
        return sum(min(count, self.file_bytes) for count in self.counts())


def no_reclaim(n_bytes, n_wanted, limit_s, is_ended):
    """Returns why readers made no task reclaim. A round has `n_wanted` bytes."""
    if is_ended:
        return f"the kernel ended a reader of sparse files after {n_bytes // MIB} MiB (try again)"
    if n_bytes < n_wanted:
        return (f"{n_bytes // MIB} of {n_wanted // MIB} MiB of sparse files were read in "
                f"{limit_s:g} s,"
                " too few to make the kernel reclaim; the load of the machine is "
                f"{os.getloadavg()[0]:.1f}"
                " (try again when the machine is less busy)")
    return (f"the kernel did not have to reclaim for {n_bytes // MIB} MiB of sparse files"
            " (a tmpfs keeps no pages of holes: choose a folder on a disk)")


def read_until(goal, folder, limit_s, join, keep=None):
    """Reads until the goal is reached; returns the pids of the readers."""
    start = more_at = time.monotonic()
    enough = n_bytes = 0
    with Readers(folder, goal.round // N_READERS, join, keep) as readers:
        while is_going_on(readers.pids):
            n_bytes, now = readers.n_bytes(), time.monotonic()
            if goal.is_reached(readers.n_distinct()):
                return readers.pids
            is_most = len(readers.pids) == READERS_MAX
            if now - start > limit_s or (is_most and n_bytes >= enough):
                break
            if not is_most and (n_bytes >= enough or now >= more_at):
                enough, more_at = n_bytes + goal.round, now + MORE_AFTER_S
                readers.add()
            time.sleep(0.02)
        is_ended = not is_going_on(readers.pids)
    raise OSError(f"{folder}: {no_reclaim(n_bytes, goal.round, limit_s, is_ended)}")


def pressure(folder, limit_s=LIMIT_S, n_wanted=N_STALLS, keep=None):
    """Reclaim for real, with files in `folder`; returns the pids of the readers.

    `keep`: an ExitStack that closes the files. Until then the memory stays full of their pages, and
    the next pressure comes sooner.

    Ends when processes of the whole machine have reclaimed on their own `n_wanted` times; within a
    memory cgroup, when the readers have read more than the group may have. Raises OSError when that
    takes longer than `limit_s`, or where the folder's file system keeps no pages of holes (tmpfs).
    """
    return read_until(Goal(n_wanted), folder, limit_s, lambda: None, keep)


def pressure_anyway(folder, say=print, patience_s=PATIENCE_S, n_wanted=N_STALLS):
    """Does what pressure() does. If the machine is too busy, reclaims in a memory cgroup
    instead."""
    try:
        return pressure(folder, patience_s, n_wanted)
    except OSError as error:
        if group_bytes() is not None and group_bytes() < machine_bytes():
            raise
        first = error
    say(f"{first}. A memory cgroup of {GROUP_BYTES // MIB} MiB takes the place of the machine.")
    try:
        with memory_cgroup(GROUP_BYTES) as join:
            return read_until(Goal(0, GROUP_BYTES), folder, LIMIT_S - patience_s, join)
    except OSError:
        raise first from None
