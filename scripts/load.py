# SPDX-License-Identifier: Apache-2.0
"""The two loads of ./quickstart and of the tests: a harmless one, and real memory pressure.

Pressure is page cache that cannot fit. Two readers go through sparse files that are together larger
than the memory. Each page that they read is a page of zeros in the page cache, so that the kernel
wakes kswapd, and the readers soon have to reclaim on their own. Nothing needs a disk, a sysctl or
an assumption about memory zones, and every page can be dropped at any time.

The memory is that of the machine, or what a memory cgroup leaves of it. In such a group the readers
reclaim within the group, and kswapd sleeps on.

Pressure ends by itself: when the kernel has reclaimed enough, or after a time limit. The files have
no name any more when the reading begins. The readers are the first that the kernel would kill, they
end with their parent, and nothing is left behind whatever ends them.
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
N_READERS = 2
BEYOND = 1.15  # of the memory: what each round of the readers reads together
N_STALLS = 50  # direct reclaims that are enough
N_ROUNDS = 3  # more of them bring nothing: the file system keeps no pages of holes
LIMIT_S = 150  # a few seconds do, but not where all processors are busy
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
    """The least limit of the memory cgroups that this process is in; None where there is none."""
    limits = []
    for folder, name in group_folders():
        with contextlib.suppress(OSError, ValueError):
            limits.append(int((folder / name).read_text()))
    return min(limits, default=None)


def n_stalls():
    """How many times a process had to reclaim on its own since boot, groups left out."""
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


def read_until_killed(fd, done, n):
    """The child: read the file again and again, and count the bytes in `done[n]`."""
    buffer, total = bytearray(MIB), 0
    while True:
        size = os.readv(fd, [buffer])
        if size == 0:
            os.lseek(fd, 0, os.SEEK_SET)
        total += size
        struct.pack_into("Q", done, 8 * n, total)


@contextlib.contextmanager
def reading(fd, done, n):
    """A process that reads the file meanwhile; its pid."""
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            OOM_SCORE.write_text("1000")
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
    """False when the kernel has ended a reader, which is still there to be waited for."""
    return not any(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) for pid in pids)


class Goal:
    """How much the readers read, and when that is enough."""

    def __init__(self, n_wanted):
        memory, limit = machine_bytes(), group_bytes()
        self.is_group = limit is not None and limit < memory
        self.limit = limit if self.is_group else memory
        self.round = int(self.limit * BEYOND)
        self.wanted = n_stalls() + n_wanted

    def is_reached(self, n_bytes):
        if self.is_group:
            return n_bytes > (self.limit + self.round) // 2
        return n_stalls() >= self.wanted


def no_reclaim(n_bytes, n_wanted, limit_s, is_ended):
    """Why readers that were to read `n_wanted` bytes in each round made no task reclaim."""
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


def pressure(folder, limit_s=LIMIT_S, n_wanted=N_STALLS):
    """Reclaim for real, with files in `folder`; returns the pids of the readers.

    Ends when processes of the whole machine have reclaimed on their own `n_wanted` times; within a
    memory cgroup, when the readers have read more than the group may have. Raises OSError when that
    takes longer than `limit_s`, or where the folder's file system keeps no pages of holes (tmpfs).
    """
    goal, deadline = Goal(n_wanted), time.monotonic() + limit_s
    n_bytes = 0
    with contextlib.ExitStack() as stack:
        done = stack.enter_context(mmap.mmap(-1, mmap.PAGESIZE))
        pids = []
        for n in range(N_READERS):
            fd = sparse_file(folder, goal.round // N_READERS)
            stack.callback(os.close, fd)
            pids.append(stack.enter_context(reading(fd, done, n)))
        while n_bytes < N_ROUNDS * goal.round and is_going_on(pids):
            n_bytes = sum(struct.unpack_from(f"{N_READERS}Q", done))
            if goal.is_reached(n_bytes):
                return pids
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        is_ended = not is_going_on(pids)
    raise OSError(f"{folder}: {no_reclaim(n_bytes, goal.round, limit_s, is_ended)}")
