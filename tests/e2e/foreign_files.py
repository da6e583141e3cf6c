# SPDX-License-Identifier: Apache-2.0
"""Files of other profilers, built byte by byte: perf.data and simpleperf's reports."""
import struct

from protowire import field

IP, TID, TIME, READ, CALLCHAIN, ID, CPU, PERIOD = (1 << 0, 1 << 1, 1 << 2, 1 << 4, 1 << 5, 1 << 6,
                                                   1 << 7, 1 << 8)
IDENTIFIER = 1 << 16
FREQ, SAMPLE_ID_ALL = 1 << 10, 1 << 18
KERNEL, USER, HAS_BUILD_ID = 1, 2, 1 << 14
CONTEXT_MAX = -4095 & (1 << 64) - 1
CONTEXT_KERNEL, CONTEXT_USER = -128 & (1 << 64) - 1, -512 & (1 << 64) - 1
ATTR_SIZE = 128


def attr(kind=1, config=0, period=1000, sample_type=IP | TID | TIME | CALLCHAIN | ID | CPU | PERIOD,
         read_format=4,
         flags=FREQ | SAMPLE_ID_ALL):
    return struct.pack("<IIQQQQQ", kind, ATTR_SIZE, config, period, sample_type, read_format,
                       flags).ljust(ATTR_SIZE, b"\0")


def record(kind, misc, body):
    body += b"\0" * (-len(body) % 8)
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def text(content):
    return content.encode() + b"\0" * (8 - len(content) % 8)


def sample_id(pid, tid, ts, event_id, cpu=0):
    return struct.pack("<IIQQII", pid, tid, ts, event_id, cpu, 0)


def mmap2(pid, start, size, offset, path, misc=USER, ts=0, event_id=1, build_id=None):
    middle = struct.pack("<B3x20s", len(build_id), build_id) if build_id else bytes(24)
    return record(10, misc | (HAS_BUILD_ID if build_id else 0),
                  struct.pack("<IIQQQ", pid, pid, start, size, offset) + middle + bytes(8)
                  + text(path)
                  + sample_id(pid, pid, ts, event_id))


def comm(pid, tid, name, ts=0, event_id=1):
    return record(3, 0,
                  struct.pack("<II", pid, tid) + text(name) + sample_id(pid, tid, ts, event_id))


def sample(pid, tid, ts, chain, event_id=1, cpu=0, period=1000, misc=USER):
    ip = next((a for a in chain if a < CONTEXT_MAX), 0)
    return record(9, misc, struct.pack("<QIIQQIIQ", ip, pid, tid, ts, event_id, cpu, 0, period)
                  + struct.pack(f"<{1 + len(chain)}Q", len(chain), *chain))


def sized(content):
    padded = content.encode().ljust(64, b"\0")
    return struct.pack("<I", len(padded)) + padded


def cmdline(*words):
    return struct.pack("<I", len(words)) + b"".join(map(sized, words))


def event_desc(*events):
    """`events`: (attr, name, ids) of each event."""
    return struct.pack("<II", len(events), ATTR_SIZE) + b"".join(
        a + struct.pack("<I", len(ids)) + sized(name) + struct.pack(f"<{len(ids)}Q", *ids)
        for a, name, ids in events)


def build_ids(*files):
    """`files`: (pid, build id, path) of each file."""
    entries = [struct.pack("<i20sB3x", pid, build_id, len(build_id))
               + path.encode().ljust(64, b"\0")
               for pid, build_id, path in files]
    return b"".join(struct.pack("<IHH", 67, 1 << 15 | USER, 8 + len(e)) + e for e in entries)


def perf_data(events, records, features=None):
    """`events`: (attr, name, ids); `features`: number -> bytes."""
    features = features or {}
    records = b"".join(records)
    ids = [struct.pack(f"<{len(i)}Q", *i) for _, _, i in events]
    at, attrs = 104 + len(events) * (ATTR_SIZE + 16), bytearray()
    for (a, _, _), part in zip(events, ids):
        attrs += a + struct.pack("<QQ", at, len(part))
        at += len(part)
    data, flags = at, sum(1 << n for n in features)
    at += len(records) + 16 * len(features)
    sections = b""
    for n in sorted(features):
        sections += struct.pack("<QQ", at, len(features[n]))
        at += len(features[n])
    head = struct.pack("<8sQQQQQQQQQQQQ", b"PERFILE2", 104, ATTR_SIZE + 16, 104, len(attrs), data,
                       len(records), 0, 0,
                       flags & (1 << 64) - 1, flags >> 64 & (1 << 64) - 1, flags >> 128, 0)
    return head + attrs + b"".join(ids) + records + sections + b"".join(
        features[n] for n in sorted(features))


def perf_stream(events, records):
    """Returns events and records as `perf record -o -` writes them."""
    heads = [record(64, 0, a + struct.pack(f"<{len(ids)}Q", *ids)) for a, _, ids in events]
    return struct.pack("<8sQ", b"PERFILE2", 16) + b"".join(heads + list(records))


def simpleperf(*records):
    parts = b"".join(struct.pack("<I", len(r)) + r for r in records)
    return b"SIMPLEPERF" + struct.pack("<H", 1) + parts + bytes(4)


def simpleperf_sample(ts, tid, *frames):
    """`frames`: (address, file, symbol) of each frame, innermost first."""
    chain = b"".join(field(3, field(1, a) + field(2, f) + field(3, s & (1 << 64) - 1))
                     for a, f, s in frames)
    return field(1, field(1, ts) + field(2, tid) + chain + field(4, 100))


def simpleperf_thread(tid, pid, name):
    return field(4, field(1, tid) + field(2, pid) + field(3, name.encode()))


def simpleperf_file(number, path, *symbols):
    return field(3, field(1, number) + field(2, path.encode())
                 + b"".join(field(3, s.encode()) for s in symbols))


def symbol_file(path, kind, *symbols, min_vaddr=0, file_offset=0):
    """A file of simpleperf's feature 132; `symbols`: (address, size, name)."""
    body = field(1, path.encode()) + field(2, kind) + field(3, min_vaddr)
    body += b"".join(field(4, field(1, a) + field(2, n) + field(3, s.encode()))
                     for a, n, s in symbols)
    body += field(6, field(1, file_offset)) if kind == 2 else b""
    return struct.pack("<I", len(body)) + body
