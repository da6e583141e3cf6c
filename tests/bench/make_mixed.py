#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a trace with some of everything that people ask about: always the same bytes for the same N.

usage: make_mixed.py N OUTPUT   about N kernel events (scheduling, markers, rss_stat), a track event with annotations
                                to ten of them, vmstat every 10 ms, and a heap profile of 2000 call stacks
"""
import random
import sys

from make_trace import (CLOCK_SNAPSHOT, CPUS, FTRACE_EVENTS, PACKET, PIDS, PROCESS_TREE, RSS_STAT, SEQUENCE, START_NS,
                        TIMESTAMP, TRACK_DESCRIPTOR, TRACK_EVENT, message, number)

# Field numbers of Perfetto's schema.
SYS_STATS, INTERNED, SEQUENCE_FLAGS, PROFILE = 7, 12, 13, 37
PRINT, SCHED_SWITCH, SCHED_WAKING = 3, 4, 20
THREADS = 4  # of a process
VMSTAT_KEYS = (1, 4, 5, 31, 32, 33)
VMSTAT_PERIOD_NS = 10_000_000
N_FUNCTIONS, N_STACKS, N_DUMPS = 500, 2000, 5
SLICES = [b"doFrame", b"inflate", b"binder transaction", b"GC", b"Choreographer", b"decodeBitmap", b"query", b"layout"]


def clocks():
    """All the same: real time, monotonic (heap dumps have the coarse one) and boot time."""
    readings = b"".join(message(1, number(1, clock) + number(2, START_NS)) for clock in (1, 3, 4, 6))
    return message(CLOCK_SNAPSHOT, readings + number(2, 6))


def comm(tid):
    return b"t%d" % tid


def processes():
    body = bytearray()
    for pid in PIDS:
        body += message(1, number(1, pid) + number(2, 1) + message(3, b"/usr/bin/p%d" % pid))
        for i in range(1, THREADS):
            tid = pid * 10 + i
            body += message(2, number(1, tid) + number(3, pid) + message(2, comm(tid)))
    return number(TIMESTAMP, START_NS) + message(PROCESS_TREE, bytes(body))


class Cpu:
    """One processor's events: threads that run in turn, wake others, open and close markers, grow and shrink."""

    def __init__(self, rng, number_of_cpu):
        self.rng = rng
        self.now = START_NS + 1000 * number_of_cpu
        self.threads = [(pid, pid * 10 + i if i else pid) for pid in PIDS[number_of_cpu::CPUS] for i in range(THREADS)]
        self.running = self.threads[0]
        self.open = {}

    def event(self, kind, body):
        self.now += self.rng.randrange(500, 6000)
        return message(2, number(1, self.now) + number(2, self.running[1]) + message(kind, body))

    def step(self):
        rng, (pid, tid) = self.rng, self.running
        what = rng.randrange(10)
        if what < 3:
            state = rng.choice((0, 1, 1, 2))
            after = rng.choice(self.threads)
            body = (message(1, comm(tid)) + number(2, tid) + number(3, 120) + number(4, state)
                    + message(5, comm(after[1])) + number(6, after[1]) + number(7, 120))
            event = self.event(SCHED_SWITCH, body)
            self.running = after
            return event
        if what < 5:
            woken = rng.choice(self.threads)[1]
            return self.event(SCHED_WAKING, message(1, comm(woken)) + number(2, woken) + number(3, 120) + number(4, 1))
        if what < 8:
            depth = self.open.get(tid, 0)
            begins = depth == 0 or depth < 4 and rng.randrange(2)
            self.open[tid] = depth + 1 if begins else depth - 1
            text = b"B|%d|%s\n" % (pid, rng.choice(SLICES)) if begins else b"E|%d\n" % pid
            return self.event(PRINT, number(1, 0xffff0000) + message(2, text))
        size = rng.randrange(1 << 12, 1 << 28) & ~0xfff
        return self.event(RSS_STAT, number(1, rng.randrange(3)) + number(2, size) + number(3, 1) + number(4, pid))


def annotated(i, now, rng):
    """A slice of one of eight tracks, with a number and a text."""
    def annotation(name, value):
        return message(4, message(10, name) + value)

    begin = (number(9, 1) + number(11, 100 + i % 8) + message(22, b"net") + message(23, b"request")
             + annotation(b"bytes", number(4, rng.randrange(1 << 20))) + annotation(b"host", message(6, b"h%d" % rng.randrange(50))))
    return (number(TIMESTAMP, now) + message(TRACK_EVENT, begin),
            number(TIMESTAMP, now + rng.randrange(100, 1000)) + message(TRACK_EVENT, number(9, 2) + number(11, 100 + i % 8)))


def vmstat(now, rng):
    values = b"".join(message(2, number(1, key) + number(2, rng.randrange(1 << 30))) for key in VMSTAT_KEYS)
    return number(TIMESTAMP, now) + message(SYS_STATS, values)


def heap_interned(rng):
    body = bytearray(message(17, number(1, 1) + message(2, b"libapp.so")) + message(16, number(1, 1) + message(2, bytes(20))))
    body += message(19, number(1, 1) + number(2, 1) + number(4, 1 << 30) + number(5, 1 << 31) + number(7, 1))
    for i in range(1, N_FUNCTIONS + 1):
        body += message(5, number(1, i) + message(2, b"function_%d" % i))
        body += message(6, number(1, i) + number(2, i) + number(3, 1) + number(4, i * 64))
    for i in range(1, N_STACKS + 1):
        frames = [1] + [rng.randrange(2, 2 + min(N_FUNCTIONS - 1, 4 ** depth)) for depth in range(1, rng.randrange(8, 24))]
        body += message(7, number(1, i) + b"".join(number(2, frame) for frame in frames))
    return bytes(body)


def heap_dump(index):
    """Totals since the start, which only grow."""
    samples = bytearray()
    for stack in range(1, N_STACKS + 1):
        allocated = (index + 1) * (stack * 7919 % (1 << 20))
        samples += message(2, number(1, stack) + number(2, allocated) + number(3, allocated // 2)
                           + number(5, 2 * (index + 1)) + number(6, index + 1))
    dump = number(1, PIDS[0]) + number(9, START_NS + (index + 1) * 10**8) + number(12, 4096) + message(11, b"malloc")
    return number(7, index) + message(5, dump + bytes(samples))


def packets(n_events):
    rng = random.Random(5)
    yield 1, clocks() + number(TIMESTAMP, START_NS)
    yield 1, processes()
    for track in range(8):
        yield 2, message(TRACK_DESCRIPTOR, number(1, 100 + track) + message(2, b"net%d" % track))
    cpus = [Cpu(rng, cpu) for cpu in range(CPUS)]
    n_slices, next_vmstat = 0, START_NS
    while n_events > 0:
        for i, cpu in enumerate(cpus):
            begin, n = cpu.now, rng.randrange(800, 1200)
            yield 3, message(FTRACE_EVENTS, number(1, i) + b"".join(cpu.step() for _ in range(n)))
            n_events -= n
            for k in range(n // 10 if i == 0 else 0):
                for packet in annotated(n_slices, begin + k * 3000, rng):
                    yield 2, packet
                n_slices += 1
        while next_vmstat < cpus[0].now:
            yield 4, vmstat(next_vmstat, rng)
            next_vmstat += VMSTAT_PERIOD_NS
    yield 5, number(SEQUENCE_FLAGS, 1) + message(INTERNED, heap_interned(rng)) + number(TIMESTAMP, START_NS)
    for index in range(N_DUMPS):
        yield 5, number(SEQUENCE_FLAGS, 2) + number(TIMESTAMP, START_NS + index) + message(PROFILE, heap_dump(index))


def make(n_events, path):
    with open(path, "wb") as out:
        for sequence, packet in packets(n_events):
            out.write(message(PACKET, packet + number(SEQUENCE, sequence)))


def main():
    if len(sys.argv) != 3 or not sys.argv[1].isdigit():
        sys.exit(__doc__)
    make(int(sys.argv[1]), sys.argv[2])


if __name__ == "__main__":
    main()
