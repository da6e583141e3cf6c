#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a trace without recording one, for measuring the converter: always the same bytes for the
same N.

usage: make_trace.py N OUTPUT            N rss_stat events: two processors, sixty processes,
                                         bundles of about a thousand events
       make_trace.py --packets N OUTPUT  N packets of about twenty bytes: values of counters, from
                                         four sequences that are written in turn, each after the
                                         others
"""
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from protowire import field  # noqa: E402 (found by the line above)

CPUS = 2
PIDS = [1000 + i for i in range(60)]
START_NS = 10**12

# Field numbers of Perfetto's schema.
PACKET, TIMESTAMP, SEQUENCE = 1, 8, 10
CLOCK_SNAPSHOT, PROCESS_TREE, FTRACE_EVENTS = 6, 2, 1
RSS_STAT = 313
TRACK_DESCRIPTOR, TRACK_EVENT, TRACKS = 60, 11, 4
TYPE_COUNTER = 4


def clocks():
    boot = field(1, field(1, 6) + field(2, START_NS))
    real = field(1, field(1, 1) + field(2, 17 * 10**17))
    return field(CLOCK_SNAPSHOT, boot + real + field(2, 6))


def processes():
    each = (field(1, field(1, pid) + field(2, 1) + field(3, b"/usr/bin/p%d" % pid)) for pid in PIDS)
    return field(TIMESTAMP, START_NS) + field(PROCESS_TREE, b"".join(each))


def bundles(n_events, rng):
    """Ring buffers are drained in turn; no processor falls far behind."""
    now = [START_NS] * CPUS
    sizes = {}
    cpu = 0
    while n_events:
        body = bytearray(field(1, cpu))
        for _ in range(min(n_events, rng.randrange(800, 1200))):
            now[cpu] += rng.randrange(500, 6000)
            pid, member = rng.choice(PIDS), rng.randrange(3)
            size = max(sizes.get((pid, member), 10**6) + rng.choice((-4096, 4096, 8192)), 0)
            sizes[pid, member] = size
            stat = field(1, member) + field(2, size) + field(3, 1) + field(4, pid * 7919)
            body += field(2, field(1, now[cpu]) + field(2, pid) + field(RSS_STAT, stat))
            n_events -= 1
        yield field(FTRACE_EVENTS, bytes(body))
        cpu = (cpu + 1) % CPUS
        now[cpu] = max(now[cpu], max(now) - 2_000_000)


def counters(n_packets, out):
    def put(sequence, packet):
        out.write(field(PACKET, packet + field(SEQUENCE, sequence)))

    put(1, clocks())
    for track in range(1, TRACKS + 1):
        put(1 + track,
            field(TRACK_DESCRIPTOR, field(1, track) + field(2, b"c%d" % track) + field(8, b"")))
    each = 5000  # before the next sequence's turn
    for i in range(n_packets):
        track = i // each % TRACKS + 1
        now = START_NS + (i // (each * TRACKS) * each + i % each) * 1000 + track
        event = field(9, TYPE_COUNTER) + field(11, track) + field(30, i % 1000)
        put(1 + track, field(TIMESTAMP, now) + field(TRACK_EVENT, event))


def make(n, path, packets=False):
    with open(path, "wb") as out:
        if packets:
            counters(n, out)
            return
        for sequence, items in ((1, [clocks()]), (2, [processes()]),
                                (3, bundles(n, random.Random(3)))):
            for packet in items:
                out.write(field(PACKET, packet + field(SEQUENCE, sequence)))


def main():
    arguments = sys.argv[1:]
    packets = arguments[:1] == ["--packets"]
    if packets:
        del arguments[0]
    if len(arguments) != 2 or not arguments[0].isdigit():
        sys.exit(__doc__)
    make(int(arguments[0]), arguments[1], packets)


if __name__ == "__main__":
    main()
