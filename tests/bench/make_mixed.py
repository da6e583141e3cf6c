#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a trace with some of everything that people ask about: always the same bytes for the same N.

usage: make_mixed.py N OUTPUT   about N kernel events (scheduling, markers, rss_stat), a track event
                                with annotations to ten of them, vmstat every 10 ms, and a heap
                                profile of 2000 call stacks
"""
import random
import sys

from make_trace import (CLOCK_SNAPSHOT, CPUS, FTRACE_EVENTS, PACKET, PIDS, PROCESS_TREE, RSS_STAT,
                        SEQUENCE, START_NS,
                        TIMESTAMP, TRACK_DESCRIPTOR, TRACK_EVENT, field)

# Field numbers of Perfetto's schema.
SYS_STATS, INTERNED, SEQUENCE_FLAGS, PROFILE = 7, 12, 13, 37
PRINT, SCHED_SWITCH, SCHED_WAKING = 3, 4, 20
THREADS = 4  # of a process
VMSTAT_KEYS = (1, 4, 5, 31, 32, 33)
VMSTAT_PERIOD_NS = 10_000_000
N_FUNCTIONS, N_STACKS, N_DUMPS = 500, 2000, 5
SLICES = [b"doFrame", b"inflate", b"binder transaction", b"GC", b"Choreographer", b"decodeBitmap",
          b"query", b"layout"]


def clocks():
    """All the same: real time, monotonic (heap dumps have the coarse one) and boot time."""
    readings = b"".join(field(1, field(1, clock) + field(2, START_NS)) for clock in (1, 3, 4, 6))
    return field(CLOCK_SNAPSHOT, readings + field(2, 6))


def comm(tid):
    return b"t%d" % tid


def processes():
    body = bytearray()
    for pid in PIDS:
        body += field(1, field(1, pid) + field(2, 1) + field(3, b"/usr/bin/p%d" % pid))
        for i in range(1, THREADS):
            tid = pid * 10 + i
            body += field(2, field(1, tid) + field(3, pid) + field(2, comm(tid)))
    return field(TIMESTAMP, START_NS) + field(PROCESS_TREE, bytes(body))


class Cpu:
    """One processor's events: threads that run in turn, wake others, open and close markers, grow
    and shrink."""

    def __init__(self, rng, number_of_cpu):
        self.rng = rng
        self.now = START_NS + 1000 * number_of_cpu
        self.threads = [(pid, pid * 10 + i if i else pid) for pid in PIDS[number_of_cpu::CPUS]
                        for i in range(THREADS)]
        self.running = self.threads[0]
        self.open = {}

    def event(self, kind, body):
        self.now += self.rng.randrange(500, 6000)
        return field(2, field(1, self.now) + field(2, self.running[1]) + field(kind, body))

    def step(self):
        rng, (pid, tid) = self.rng, self.running
        what = rng.randrange(10)
        if what < 3:
            state = rng.choice((0, 1, 1, 2))
            after = rng.choice(self.threads)
            body = (field(1, comm(tid)) + field(2, tid) + field(3, 120) + field(4, state)
                    + field(5, comm(after[1])) + field(6, after[1]) + field(7, 120))
            event = self.event(SCHED_SWITCH, body)
            self.running = after
            return event
        if what < 5:
            woken = rng.choice(self.threads)[1]
            return self.event(SCHED_WAKING,
                              field(1, comm(woken)) + field(2, woken) + field(3, 120) + field(4, 1))
        if what < 8:
            depth = self.open.get(tid, 0)
            begins = depth == 0 or depth < 4 and rng.randrange(2)
            self.open[tid] = depth + 1 if begins else depth - 1
            text = b"B|%d|%s\n" % (pid, rng.choice(SLICES)) if begins else b"E|%d\n" % pid
            return self.event(PRINT, field(1, 0xffff0000) + field(2, text))
        size = rng.randrange(1 << 12, 1 << 28) & ~0xfff
        return self.event(RSS_STAT,
                          field(1, rng.randrange(3)) + field(2, size) + field(3, 1) + field(4, pid))


def annotated(i, now, rng):
    """A slice of one of eight tracks, with a number and a text."""
    def annotation(name, value):
        return field(4, field(10, name) + value)

    begin = (field(9, 1) + field(11, 100 + i % 8) + field(22, b"net") + field(23, b"request")
             + annotation(b"bytes", field(4, rng.randrange(1 << 20)))
             + annotation(b"host", field(6, b"h%d" % rng.randrange(50))))
    return (field(TIMESTAMP, now) + field(TRACK_EVENT, begin),
            field(TIMESTAMP, now + rng.randrange(100, 1000))
            + field(TRACK_EVENT, field(9, 2) + field(11, 100 + i % 8)))


def vmstat(now, rng):
    values = b"".join(field(2, field(1, key) + field(2, rng.randrange(1 << 30)))
                      for key in VMSTAT_KEYS)
    return field(TIMESTAMP, now) + field(SYS_STATS, values)


def heap_interned(rng):
    body = bytearray(field(17, field(1, 1) + field(2, b"libapp.so"))
                     + field(16, field(1, 1) + field(2, bytes(20))))
    body += field(19,
                  field(1, 1) + field(2, 1) + field(4, 1 << 30) + field(5, 1 << 31) + field(7, 1))
    for i in range(1, N_FUNCTIONS + 1):
        body += field(5, field(1, i) + field(2, b"function_%d" % i))
        body += field(6, field(1, i) + field(2, i) + field(3, 1) + field(4, i * 64))
    for i in range(1, N_STACKS + 1):
        frames = [1] + [rng.randrange(2, 2 + min(N_FUNCTIONS - 1, 4 ** depth))
                        for depth in range(1, rng.randrange(8, 24))]
        body += field(7, field(1, i) + b"".join(field(2, frame) for frame in frames))
    return bytes(body)


def heap_dump(index):
    """Totals since the start, which only grow."""
    samples = bytearray()
    for stack in range(1, N_STACKS + 1):
        allocated = (index + 1) * (stack * 7919 % (1 << 20))
        samples += field(2, field(1, stack) + field(2, allocated) + field(3, allocated // 2)
                           + field(5, 2 * (index + 1)) + field(6, index + 1))
    dump = field(1, PIDS[0]) + field(9, START_NS + (index + 1) * 10**8) + field(12, 4096) + field(
        11, b"malloc")
    return field(7, index) + field(5, dump + bytes(samples))


def packets(n_events):
    rng = random.Random(5)
    yield 1, clocks() + field(TIMESTAMP, START_NS)
    yield 1, processes()
    for track in range(8):
        yield 2, field(TRACK_DESCRIPTOR, field(1, 100 + track) + field(2, b"net%d" % track))
    cpus = [Cpu(rng, cpu) for cpu in range(CPUS)]
    n_slices, next_vmstat = 0, START_NS
    while n_events > 0:
        for i, cpu in enumerate(cpus):
            begin, n = cpu.now, rng.randrange(800, 1200)
            yield 3, field(FTRACE_EVENTS, field(1, i) + b"".join(cpu.step() for _ in range(n)))
            n_events -= n
            for k in range(n // 10 if i == 0 else 0):
                for packet in annotated(n_slices, begin + k * 3000, rng):
                    yield 2, packet
                n_slices += 1
        while next_vmstat < cpus[0].now:
            yield 4, vmstat(next_vmstat, rng)
            next_vmstat += VMSTAT_PERIOD_NS
    yield 5, field(SEQUENCE_FLAGS, 1) + field(INTERNED,
                                              heap_interned(rng)) + field(TIMESTAMP, START_NS)
    for index in range(N_DUMPS):
        yield 5, field(SEQUENCE_FLAGS,
                       2) + field(TIMESTAMP, START_NS + index) + field(PROFILE, heap_dump(index))


def make(n_events, path):
    with open(path, "wb") as out:
        for sequence, packet in packets(n_events):
            out.write(field(PACKET, packet + field(SEQUENCE, sequence)))


def main():
    if len(sys.argv) != 3 or not sys.argv[1].isdigit():
        sys.exit(__doc__)
    make(int(sys.argv[1]), sys.argv[2])


if __name__ == "__main__":
    main()
