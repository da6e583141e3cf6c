# SPDX-License-Identifier: Apache-2.0
"""The states of a process that tests wait for, as the kernel tells them.

A machine that is busy makes a program late by any time. So no test waits for a time in which a program
will surely have done something: it waits until the program has done it.
"""
import pathlib
import os
import signal

import lib

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def proc_text(pid, name):
    """A file of a process; empty where the process has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


def _stat(pid):
    """What /proc/PID/stat has behind the name; ends the wait of a test whose process has ended."""
    fields = proc_text(pid, "stat").rpartition(")")[2].split()
    if not fields or fields[0] in "ZX":
        raise AssertionError(f"process {pid} has ended")
    return fields


def wait_for_state(pid, letters):
    """Until the process sleeps ("S"), is stopped ("T"), ..."""
    lib.wait_for(lambda: _stat(pid)[0] in letters, f"process {pid} in state {letters}")


def wait_for_program(pid, name, letters="S"):
    """Until the process runs the program of this name, and is in the state: what it does at its start is done."""
    lib.wait_for(lambda: proc_text(pid, "comm").rstrip("\n") == name[:15] and _stat(pid)[0] in letters,
                 f"process {pid} as {name} in state {letters}")


def wait_for_cpu(pid, seconds=0.1):
    """Until the process has computed for so long: what it does again and again, it has done."""
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
    """Until the process has read n times more: each sample of most data sources is one read of a file at least."""
    end = n_reads(pid) + n
    lib.wait_for(lambda: n_reads(pid) >= end, f"process {pid} reads {n} times")


def wait_for_text(pid, name, text):
    """Until a file of the process has the text: a library in its maps, its command line, ..."""
    def has_text():
        _stat(pid)
        return text in proc_text(pid, name)
    lib.wait_for(has_text, f"{text!r} in /proc/{pid}/{name}")


def wait_for_turns(pid, n):
    """Until the process has waited n times more for something to do, and so has done something as often."""
    def count():
        _stat(pid)
        return int(proc_text(pid, "status").partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    end = count() + n
    lib.wait_for(lambda: count() >= end, f"process {pid} waits {n} times")


def blocks(pid, number):
    """Whether the process blocks a signal: our programs do from when their loop takes it."""
    mask = proc_text(pid, "status").partition("SigBlk:")[2].split()[:1]
    return bool(mask) and bool(int(mask[0], 16) >> (number - 1) & 1)


def wait_for_taken(pid, number):
    """Until a blocked signal that was sent to the process is no longer pending: its loop has taken it."""
    def is_pending():
        _stat(pid)
        masks = [line.split()[1] for line in proc_text(pid, "status").splitlines()
                 if line.startswith(("SigPnd:", "ShdPnd:"))]
        return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
    lib.wait_for(lambda: not is_pending(), f"process {pid} takes signal {number}")


def wait_for_recorder(pid, n=0):
    """Until `mmtrace record` takes signals, and has then read so many times."""
    lib.wait_for(lambda: _stat(pid) and blocks(pid, signal.SIGINT), f"process {pid} takes signals")
    if n:
        wait_for_reads(pid, n)
