# SPDX-License-Identifier: Apache-2.0
"""The states of a process that tests wait for, as the kernel tells them.

On a busy machine a program may be late by any time. So no test waits for a fixed time in which a
program should have finished: the test waits until the program has finished.
"""
import contextlib
import os
import pathlib
import re
import signal
import time
import unittest

import lib

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def proc_text(pid, name):
    """The text of a file of a process; empty if the process has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


def texts_of_tasks(pid, name):
    """The texts of a file of each thread of a process; empty for a thread that has ended."""
    with contextlib.suppress(OSError):
        return [proc_text(pid, f"task/{tid}/{name}") for tid in os.listdir(f"/proc/{pid}/task")]
    return []


def names_of_children(pid):
    """The names of a process's children, and of their children."""
    children = [child for text in texts_of_tasks(pid, "children") for child in text.split()]
    return [name for child in children
            for name in (proc_text(child, "comm").strip(), *names_of_children(child))]


def _stat(pid):
    """The fields of /proc/PID/stat after the name. Raises AssertionError if the process has
    ended."""
    fields = proc_text(pid, "stat").rpartition(")")[2].split()
    if not fields or fields[0] in "ZX":
        raise AssertionError(f"process {pid} has ended")
    return fields


def wait_for_state(pid, letters):
    """Waits until the process is in one of the states: "S" for sleeping, "T" for stopped, ..."""
    lib.wait_for(lambda: _stat(pid)[0] in letters, f"process {pid} in state {letters}")


def wait_for_program(pid, name, letters="S"):
    """Waits until the process runs the program of this name and is in the state: its start is
    over."""
    lib.wait_for(lambda: proc_text(pid, "comm").rstrip("\n") == name[:15]
                 and _stat(pid)[0] in letters,
                 f"process {pid} as {name} in state {letters}")


def wait_for_cpu(pid, seconds=0.1):
    """Waits until the process has used so much CPU time: a program that repeats its work has then
    done the work."""
    def ticks():
        fields = _stat(pid)
        return int(fields[11]) + int(fields[12])
    end = ticks() + seconds / TICK_S
    lib.wait_for(lambda: ticks() >= end, f"process {pid} computes for {seconds} s")


def n_reads(pid):
    """How often the process has read from a file or a pipe."""
    _stat(pid)
    return int(proc_text(pid, "io").partition("syscr: ")[2].split()[0])


def wait_for_reads(pid, n):
    """Waits until the process has read n times more. Most data sources read a file at least once
    for each sample."""
    end = n_reads(pid) + n
    lib.wait_for(lambda: n_reads(pid) >= end, f"process {pid} reads {n} times")


def wait_for_text(pid, name, text):
    """Waits until a file of the process has the text: a library in its maps, its command line,
    ..."""
    def has_text():
        _stat(pid)
        return text in proc_text(pid, name)
    lib.wait_for(has_text, f"{text!r} in /proc/{pid}/{name}")


def wait_for_turns(pid, n):
    """Waits until the process has gone to sleep n times more: its loop has come round n times."""
    def count():
        _stat(pid)
        return int(proc_text(pid, "status").partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    end = count() + n
    lib.wait_for(lambda: count() >= end, f"process {pid} waits {n} times")


def turns(pid):
    """How often each thread of the process has had a processor, and its state now: {thread:
    (number, "S")}."""
    found = {}
    for thread in _listed(f"/proc/{pid}/task"):
        text = proc_text(f"{pid}/task/{thread}", "status")
        switches = re.findall(r"voluntary_ctxt_switches:\t(\d+)", text)  # nonvoluntary ones, too
        if switches:
            found[thread] = sum(map(int, switches)), re.search(r"State:\t(\w)", text)[1]
    return found


def sleeps(pid, seconds):
    """Whether all threads of the process sleep for this time. A thread that only waits for a
    processor does not sleep."""
    before = turns(pid)
    time.sleep(seconds)
    return turns(pid) == before and {state for _, state in before.values()} == {"S"}


def wait_for_rest(pid, share_max, meanwhile):
    """Waits until the process takes less than this share of a processor while meanwhile() runs.
    Returns the share.

    A process that gets no turn takes little, too. So the process must also sleep for at least half
    of the time. A busy machine makes a process wait for turns: there are ten tries.
    """
    for _ in range(10):
        before, began = _scheduled(pid), time.monotonic()
        meanwhile()
        after, lasted = _scheduled(pid), time.monotonic() - began
        used, waited = ((b - a) / lasted for a, b in zip(before, after))
        if used < share_max and used + waited < 0.5:
            return used
    raise AssertionError(
        f"process {pid} takes {used:.3f} of a processor, and waits for one for {waited:.3f} "
        "of the time")


def _scheduled(pid):
    """The seconds that the threads of a process had a processor, and that they waited for a
    processor. Waits until the process sleeps."""
    wait_for_state(pid, "S")
    words = [proc_text(f"{pid}/task/{thread}", "schedstat").split()
             for thread in _listed(f"/proc/{pid}/task")]
    used, waited = (sum(int(word[i]) for word in words if word) / 1e9 for i in range(2))
    if not used:
        raise unittest.SkipTest(
            "the kernel does not count how long threads run (CONFIG_SCHED_INFO)")
    return used, waited


def _listed(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def wait_for_rounds(pid, n):
    """Waits until a thread of the process has waited n times more: a loop has then done its work
    between two waits."""
    def count():
        _stat(pid)
        statuses = [proc_text(pid, f"task/{task}/status")
                    for task in os.listdir(f"/proc/{pid}/task")]
        return max(int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
                   for status in statuses if status)
    end = count() + n
    lib.wait_for(lambda: count() >= end, f"a thread of process {pid} waits {n} times")


def blocks(pid, number):
    """Whether the process blocks a signal: our programs block a signal once their loop takes it."""
    mask = proc_text(pid, "status").partition("SigBlk:")[2].split()[:1]
    return bool(mask) and bool(int(mask[0], 16) >> (number - 1) & 1)


def open_files(pid):
    """The files of the process's descriptors, as the kernel names them."""
    folder = f"/proc/{pid}/fd"
    for fd in os.listdir(folder):
        with contextlib.suppress(OSError):
            yield os.readlink(f"{folder}/{fd}")


def locks(pid, path):
    """Whether the process has locked the file with flock()."""
    with contextlib.suppress(OSError):
        return any(os.path.samefile(f"/proc/{pid}/fd/{fd}", path)
                   and "lock:" in proc_text(pid, f"fdinfo/{fd}")
                   for fd in os.listdir(f"/proc/{pid}/fd"))
    return False


def wait_for_taken(pid, number):
    """Waits until a blocked signal of the process is no longer pending: its loop has taken the
    signal."""
    def is_pending():
        _stat(pid)
        masks = [line.split()[1] for line in proc_text(pid, "status").splitlines()
                 if line.startswith(("SigPnd:", "ShdPnd:"))]
        return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
    lib.wait_for(lambda: not is_pending(), f"process {pid} takes signal {number}")


def wait_for_recorder(pid, n=0):
    """Waits until `mmtrace record` takes signals, and then until it has read n times."""
    lib.wait_for(lambda: _stat(pid) and blocks(pid, signal.SIGINT), f"process {pid} takes signals")
    if n:
        wait_for_reads(pid, n)


def wait_for_loop(pid):
    """Waits until the main thread of a recorder waits in its loop, and not for one of its threads
    or for the kernel."""
    def waits():
        channel = proc_text(pid, "wchan")  # "0" for users who may not see it
        return _stat(pid)[0] == "S" and ("poll" in channel or channel in ("", "0"))
    lib.wait_for(waits, f"the loop of process {pid} waits")


def wait_for_samples(pid):
    """Waits until a profiled program has written 64 KiB of samples into its ring."""
    ring_header, enough = 4096, 65536

    def is_there():
        ring = next((line for line in proc_text(pid, "maps").splitlines()
                     if "/memfd:mmheap" in line), "")
        if not ring:
            return False
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(int(ring.partition("-")[0], 16) + ring_header + enough)
            return any(memory.read(4096))
    lib.wait_for(is_there, f"process {pid} has samples")
