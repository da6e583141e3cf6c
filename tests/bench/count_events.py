# SPDX-License-Identifier: Apache-2.0
"""Count the ftrace events of a trace of any recorder, without code of mmtrace or Perfetto.

The numbers of the fields are Perfetto's:
- Trace.packet 1
- TracePacket.ftrace_events 1, .ftrace_stats 34
- FtraceEventBundle.event 2, .lost_events 3, .compact_sched 4 with its packed timestamps 1 and 7
- FtraceStats.phase 1, .cpu_stats 2
- FtraceCpuStats.overrun 3, .commit_overrun 4, .dropped_events 8, .read_events 9
"""
import collections

EVENT, LOST, COMPACT = 2, 3, 4
TIMESTAMPS = (1, 7)

STATS, PHASE, CPU_STATS = 34, 1, 2
LOST_COUNTS, READ_COUNT = (3, 4, 8), 9
END_OF_TRACE = 2

Count = collections.namedtuple("Count", "events lost_bundles bundles")


def fields(data, at, end):
    """Yields (number, start, end) of each field: the place of its content."""
    while at < end:
        key = shift = 0
        while True:
            byte = data[at]
            at += 1
            key |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        kind = key & 7
        start = at
        if kind == 0:
            while data[at] >= 0x80:
                at += 1
            at += 1
        elif kind == 1:
            at += 8
        elif kind == 5:
            at += 4
        else:
            size = shift = 0
            while True:
                byte = data[at]
                at += 1
                size |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            start = at
            at += size
        yield key >> 3, start, at


def count_bundle(data, start, end):
    n = lost = 0
    for number, at, stop in fields(data, start, end):
        if number == EVENT:
            n += 1
        elif number == LOST:
            lost = 1
        elif number == COMPACT:
            for inner, first, last in fields(data, at, stop):
                if inner in TIMESTAMPS:
                    n += sum(1 for byte in data[first:last] if byte < 0x80)
    return n, lost


def count_events(path):
    data = path.read_bytes()
    n = lost = bundles = 0
    for number, start, end in fields(data, 0, len(data)):
        for inner, at, stop in fields(data, start, end) if number == 1 else ():
            if inner == 1:
                bundle_n, bundle_lost = count_bundle(data, at, stop)
                n += bundle_n
                lost += bundle_lost
                bundles += 1
    return Count(n, lost, bundles)


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        if data[at] < 0x80:
            return value
        at, shift = at + 1, shift + 7


def kernel_counts(path):
    """Returns (lost, read): the events of all processors that the kernel counted between the start
    and the end of the trace."""
    data = path.read_bytes()
    lost = read = 0
    for number, start, end in fields(data, 0, len(data)):
        for inner, at, stop in fields(data, start, end) if number == 1 else ():
            if inner != STATS:
                continue
            found = list(fields(data, at, stop))
            phase = next((varint(data, first) for n, first, _ in found if n == PHASE), 0)
            sign = 1 if phase == END_OF_TRACE else -1
            for n, first, last in found:
                for count, place, _ in fields(data, first, last) if n == CPU_STATS else ():
                    lost += sign * varint(data, place) if count in LOST_COUNTS else 0
                    read += sign * varint(data, place) if count == READ_COUNT else 0
    return lost, read
