#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a trace without recording one, for measuring the converter: always the same bytes for the same N.

usage: make_trace.py N OUTPUT            N rss_stat events: two processors, sixty processes, bundles of about
                                         a thousand events
       make_trace.py --packets N OUTPUT  N packets of about twenty bytes: values of counters, from four
                                         sequences that are written in turn, each behind the others
"""
import random
import sys

CPUS = 2
PIDS = [1000 + i for i in range(60)]
START_NS = 10**12

# Field numbers of Perfetto's schema.
PACKET, TIMESTAMP, SEQUENCE = 1, 8, 10
CLOCK_SNAPSHOT, PROCESS_TREE, FTRACE_EVENTS = 6, 2, 1
RSS_STAT = 313
TRACK_DESCRIPTOR, TRACK_EVENT, TRACKS = 60, 11, 4
TYPE_COUNTER = 4


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, body):
    return varint(field << 3 | 2) + varint(len(body)) + body


def clocks():
    boot = message(1, number(1, 6) + number(2, START_NS))
    real = message(1, number(1, 1) + number(2, 17 * 10**17))
    return message(CLOCK_SNAPSHOT, boot + real + number(2, 6))


def processes():
    each = (message(1, number(1, pid) + number(2, 1) + message(3, b"/usr/bin/p%d" % pid)) for pid in PIDS)
    return number(TIMESTAMP, START_NS) + message(PROCESS_TREE, b"".join(each))


def bundles(n_events, rng):
    """Ring buffers are drained in turn; no processor falls far behind."""
    now = [START_NS] * CPUS
    sizes = {}
    cpu = 0
    while n_events:
        body = bytearray(number(1, cpu))
        for _ in range(min(n_events, rng.randrange(800, 1200))):
            now[cpu] += rng.randrange(500, 6000)
            pid, member = rng.choice(PIDS), rng.randrange(3)
            size = max(sizes.get((pid, member), 10**6) + rng.choice((-4096, 4096, 8192)), 0)
            sizes[pid, member] = size
            stat = number(1, member) + number(2, size) + number(3, 1) + number(4, pid * 7919)
            body += message(2, number(1, now[cpu]) + number(2, pid) + message(RSS_STAT, stat))
            n_events -= 1
        yield message(FTRACE_EVENTS, bytes(body))
        cpu = (cpu + 1) % CPUS
        now[cpu] = max(now[cpu], max(now) - 2_000_000)


def counters(n_packets, out):
    def put(sequence, packet):
        out.write(message(PACKET, packet + number(SEQUENCE, sequence)))

    put(1, clocks())
    for track in range(1, TRACKS + 1):
        put(1 + track, message(TRACK_DESCRIPTOR, number(1, track) + message(2, b"c%d" % track) + message(8, b"")))
    each = 5000  # before the next sequence's turn
    for i in range(n_packets):
        track = i // each % TRACKS + 1
        now = START_NS + (i // (each * TRACKS) * each + i % each) * 1000 + track
        event = number(9, TYPE_COUNTER) + number(11, track) + number(30, i % 1000)
        put(1 + track, number(TIMESTAMP, now) + message(TRACK_EVENT, event))


def make(n, path, packets=False):
    with open(path, "wb") as out:
        if packets:
            counters(n, out)
            return
        for sequence, items in ((1, [clocks()]), (2, [processes()]), (3, bundles(n, random.Random(3)))):
            for packet in items:
                out.write(message(PACKET, packet + number(SEQUENCE, sequence)))


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
