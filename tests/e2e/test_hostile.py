# SPDX-License-Identifier: Apache-2.0
"""The converter on traces in which every field of every packet kind is wrong in turn.

The traces are made from the list of Perfetto's messages. They go through the fuzz target of the
converter, which checks that the database is sound and that ids refer to rows that exist. If
MMTRACE_BUILD is a build with sanitizers, the sanitizers check, too.
"""
import collections
import contextlib
import csv
import gzip
import pathlib
import shutil
import sqlite3
import struct
import tempfile
import unittest
import zlib

import lib
from protowire import varint

FACTS = lib.ROOT / "tests" / "data" / "facts" / "perfetto-messages.csv"
FUZZ_CONVERT = lib.BUILD / "tests" / "fuzz" / "fuzz_convert"
DEPTH_MAX = 4
EXTREMES = (0, 1, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
FIXED64, BYTES, FIXED32 = 1, 2, 5
SCALARS = {"double": FIXED64, "fixed64": FIXED64, "sfixed64": FIXED64, "float": FIXED32,
           "fixed32": FIXED32,
           "sfixed32": FIXED32, "string": BYTES, "bytes": BYTES}

Field = collections.namedtuple("Field", "name number type")


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    return varint(field << 3 | BYTES) + varint(len(value)) + value


def scalar(field, value):
    """The field with a number as its value, in the form that its type has."""
    wire = SCALARS.get(field.type, 0)
    head = varint(field.number << 3 | wire)
    if wire == FIXED64:
        return head + struct.pack("<Q", value)
    if wire == FIXED32:
        return head + struct.pack("<I", value & 0xFFFFFFFF)
    return head + varint(value) if wire == 0 else text(field.number, b"%d" % value)


def other_wire_types(field, value):
    """The field in each wire type that is wrong for the field, and in each wire type that does not
    exist."""
    forms = {0: varint(value), FIXED64: struct.pack("<Q", value), BYTES: b"\x02\x08\x01",
             FIXED32: b"\1\0\0\0",
             3: b"\x08\x01" + varint(field.number << 3 | 4)}
    for wire, body in forms.items():
        if wire != SCALARS.get(field.type, 0):
            yield varint(field.number << 3 | wire) + body


def messages_read():
    messages = collections.defaultdict(list)
    with open(FACTS, newline="") as file:
        for row in csv.DictReader(file):
            messages[row["message"]].append(Field(row["field"], int(row["number"]), row["type"]))
    return messages


class Traces:
    """Bodies of messages with all their fields, one of which is changed in turn."""

    def __init__(self):
        self.messages = messages_read()

    def whole(self, message, value=1, path=()):
        out = []
        for field in self.messages[message]:
            if field.type in self.messages:
                if field.type not in path and len(path) < DEPTH_MAX:
                    out.append(text(field.number, self.whole(field.type, value, path + (message,))))
            else:
                out.append(scalar(field, value))
        return b"".join(out)

    def variants(self, message, make, path=()):
        """Yields bodies of the message. At the end of each, one leaf is repeated with a value that
        make(field) returns."""
        for field in self.messages[message]:
            if field.type in self.messages:
                if field.type in path or len(path) >= DEPTH_MAX:
                    continue
                for body in self.variants(field.type, make, path + (message,)):
                    yield text(field.number, body)
            else:
                for wrong in make(field):
                    yield self.whole_flat(message) + wrong

    def whole_flat(self, message):
        return b"".join(scalar(f, 1) for f in self.messages[message] if f.type not in self.messages)

    def circles(self, message, path=(), seen=()):
        """(the path to a message, the path from the message to itself), for all messages that can
        contain themselves."""
        for field in self.messages[message]:
            if field.type == message:
                yield path, (field,)
            elif field.type in seen:
                at = seen.index(field.type)
                yield path[:at], path[at:] + (field,)
            elif field.type in self.messages and len(path) < DEPTH_MAX:
                yield from self.circles(field.type, path + (field,), seen + (message,))

    def packet_kinds(self):
        return [field for field in self.messages["TracePacket"] if field.type in self.messages]


def packet(field, body, **more):
    return text(1, number(8, more.get("ts", 1000)) + number(10, 1) + text(field, body))


START = text(1, number(8, 1) + number(10, 1) + number(13, 3))


class Hostile(unittest.TestCase):
    def setUp(self):
        if not FUZZ_CONVERT.exists():
            self.skipTest(f"{FUZZ_CONVERT} is not built")
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="hostile-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def convert_all(self, traces):
        for name, trace in traces:
            (self.dir / name).write_bytes(START + trace)
        done = lib.run(FUZZ_CONVERT, self.dir, timeout_s=1200, cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return int(done.stdout.split()[0])


class EveryField(Hostile):
    traces = Traces()

    def test_extreme_numbers(self):
        """All numbers of a packet are extreme. The packet comes before and after a packet with
        small numbers."""
        def make():
            for kind in self.traces.packet_kinds():
                for value in EXTREMES:
                    one = packet(kind.number, self.traces.whole(kind.type, value))
                    yield f"{kind.name}.{value}", one + packet(
                        kind.number, self.traces.whole(kind.type, 1)) + one
        self.assertGreater(self.convert_all(make()), 200)

    def test_one_extreme_number(self):
        def make():
            for kind in self.traces.packet_kinds():
                bodies = self.traces.variants(
                    kind.type, lambda f: [scalar(f, v) for v in (0, 2**63, 2**64 - 1)])
                yield kind.name, b"".join(packet(kind.number, body) for body in bodies)
        self.assertGreater(self.convert_all(make()), 25)

    def test_wrong_wire_types(self):
        def make():
            for kind in self.traces.packet_kinds():
                bodies = self.traces.variants(kind.type, lambda f: other_wire_types(f, 1))
                yield kind.name, b"".join(packet(kind.number, body) for body in bodies)
        self.assertGreater(self.convert_all(make()), 25)

    def test_lengths_beyond_the_end(self):
        """Each field in turn claims more bytes than its message has: one more, and the largest
        number."""
        def make():
            for kind in self.traces.packet_kinds():
                bodies = self.traces.variants(kind.type, lambda f: [
                    varint(f.number << 3 | BYTES) + varint(n) + b"ab"
                    for n in (3, 2**31, 2**63, 2**64 - 1)])
                yield kind.name, b"".join(packet(kind.number, body) for body in bodies)
        self.assertGreater(self.convert_all(make()), 25)

    def test_times_that_jump(self):
        """Packets of all kinds have times that go forwards and back."""
        kinds = [(kind.number, self.traces.whole(kind.type)) for kind in self.traces.packet_kinds()]
        times = (5, 2**63 - 1, 0, 2**64 - 1, 10**18, 3, 2**63, 1)
        trace = b"".join(packet(*kind, ts=ts) for ts in times for kind in kinds)
        self.convert_all([("forth", trace)])


class Converted(unittest.TestCase):
    """A trace that the test makes is converted; the test asks the database."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="hostile-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.db = self.dir / "out.db"

    def query(self, sql):
        with contextlib.closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True)) as handle:
            return handle.execute(sql).fetchall()

    def stat(self, name):
        return self.query(f"SELECT sum(value) FROM stats WHERE name = '{name}'")[0][0]


class Shapes(Converted):
    """Messages that are well formed, with contents that no recorder writes: the rows are
    checked."""

    def convert(self, trace, code=0):
        path = self.dir / "trace"
        path.write_bytes(START + trace)
        done = lib.run(lib.MMSQL, "convert", "-q", path, "-o", self.db, timeout_s=120)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])
        return done.stderr

    @staticmethod
    def track(uuid, parent, name):
        return packet(60, number(1, uuid) + number(5, parent) + text(2, name))

    @staticmethod
    def instant(uuid, name, ts=1000):
        return packet(11, number(9, 3) + number(11, uuid) + text(23, name), ts=ts)

    def test_tracks_that_are_their_own_ancestors(self):
        self.convert(self.track(1, 2, b"a") + self.track(2, 3, b"b") + self.track(3, 1, b"c") +
                     self.track(4, 4, b"self") + self.instant(1, b"one") + self.instant(4, b"two"))
        self.assertGreater(self.stat("track_event_track_hierarchy_loop"), 0)
        self.assertEqual(self.query("SELECT count(*) FROM slice"), [(0,)])

    def test_a_long_chain_of_tracks(self):
        n = 20000
        self.convert(b"".join(self.track(i + 1, i, b"t") for i in range(1, n))
                     + self.instant(n, b"leaf"))
        self.assertEqual(
            self.query("SELECT count(*) FROM track WHERE name = 't' AND parent_id >= id"), [(0,)])

    def test_processes_that_are_their_own_ancestors(self):
        tree = b"".join(text(1, number(1, pid) + number(2, parent) + text(3, b"/p%d" % pid))
                        for pid, parent in ((10, 11), (11, 12), (12, 10), (13, 13)))
        self.convert(packet(2, tree))
        self.assertEqual(self.query(
            "SELECT p.pid, q.pid FROM process p JOIN process q ON q.upid = p.parent_upid "
            "WHERE p.pid BETWEEN 10 AND 13 ORDER BY 1"), [(10, 11), (11, 12), (12, 10), (13, 13)])

    def test_interned_ids_that_refer_to_nothing_or_themselves(self):
        frames = b"".join(text(6, number(1, i) + number(2, i) + number(3, i)) for i in (1, 2))
        stacks = text(7, number(1, 1) + number(2, 1) + number(2, 2)
                      + number(2, 9)) + text(7, number(1, 2))
        mapping = text(19, number(1, 1) + number(8, 1) + number(7, 1))
        interned = text(12, frames + stacks + mapping)
        sample = number(1, 0) + number(2, 5) + number(3, 5)
        for stack in (1, 2, 77):
            self.convert(text(1, number(8, 5) + number(10, 1) + interned +
                              text(66, sample + number(4, stack))))
            self.assertEqual(self.query(
                "SELECT count(*) FROM stack_profile_callsite WHERE parent_id >= id"), [(0,)])

    def test_deep_nesting_of_every_recursive_message(self):
        traces = Traces()
        for kind in traces.packet_kinds():
            for path in traces.circles(kind.type):
                body = number(1, 1)
                for _ in range(3000):
                    for field in reversed(path[1]):
                        body = text(field.number, body)
                for field in reversed(path[0]):
                    body = text(field.number, body)
                with self.subTest(kind.name, path=[field.name for field in path[0] + path[1]]):
                    self.convert(packet(kind.number, body))

    def test_an_extension_that_contains_itself(self):
        """Args are cut at a limit, and the loss is counted."""
        field = (text(1, b"again") + number(3, 9900) + number(4, 1) + number(5, 11)
                 + text(6, b".Self") +
                 text(2, b".perfetto.protos.TrackEvent"))
        own = text(1, b"again") + number(3, 1) + number(4, 1) + number(5, 11) + text(6, b".Self")
        file = text(1, b"x.proto") + text(4, text(1, b"Self") + text(2, own)) + text(7, field)
        body = number(2, 7)
        for _ in range(5000):
            body = text(1, body)
        event = number(9, 3) + number(11, 1) + text(23, b"e") + text(9900, body)
        self.convert(packet(72, text(1, text(1, file))) + self.track(1, 0, b"t")
                     + packet(11, event))
        self.assertEqual(self.query("SELECT name FROM slice"), [("e",)])
        self.assertLess(self.query("SELECT coalesce(max(length(key)), 0) FROM args")[0][0], 4096)

    def test_descriptions_without_end(self):
        """Names that repeat a long name, and sets that unpack to many times their size, are counted
        and not kept."""
        messages = b"".join(text(4, text(1, b"M%d" % i)) for i in range(100000))
        long_names = text(1, text(2, b"p" * (1 << 20)) + messages)
        nested = text(1, b"N" * 4000)
        for _ in range(10):
            nested = text(1, b"N" * 4000) + text(3, nested)
        bomb = gzip.compress(text(1, text(2, bytes(15 << 20))))
        event = number(9, 3) + number(11, 1) + text(23, b"e")
        said = self.convert(packet(72, text(1, long_names))
                            + packet(72, text(1, text(1, text(4, nested)))) +
                            packet(72, text(2, bomb)) * 200 + self.track(1, 0, b"t")
                            + packet(11, event))
        self.assertEqual(said, "")
        self.assertGreaterEqual(self.stat("mmsql_extension_descriptors_damaged"), 190)
        self.assertEqual(self.query("SELECT name FROM slice"), [("e",)])

    def test_clocks_that_lead_nowhere(self):
        """The trace has very many clocks, and very many times of a clock that is not connected to
        them."""
        clocks = b"".join(text(1, number(10, i) + text(6, text(1, number(1, 6) + number(2, 1000)) +
                                                       text(1, number(1, 64) + number(2, 5))))
                          for i in range(1, 1000))
        apart = text(1, number(10, 1) + text(6, text(1, number(1, 1) + number(2, 9))
                                             + text(1, number(1, 3) + number(2, 9))))
        times = b"".join(text(1, number(8, i) + number(58, 3) + number(10, 1)
                              + text(11, number(9, 3))) for i in range(50000))
        self.convert(clocks + apart + times)
        self.assertEqual(self.stat("clock_sync_failure_no_path"), 50000)

    def test_facts_without_end(self):
        attributes = [text(1, number(8, 1) + number(10, 1)
                           + text(126, text(1, text(1, b"k%d" % i) + number(2, i))))
                      for i in range(70000)]
        self.convert(b"".join(attributes) * 2)
        n_facts = self.query("SELECT count(*) FROM metadata WHERE name LIKE 'trace_attribute.%'")[
            0][0]
        self.assertGreater(n_facts, 60000)

    def test_pids_that_wrap(self):
        """The 32 bits of a pid count, and a pid that comes back is another process."""
        def fork(ts, child):
            task = number(1, child) + text(2, b"child") + number(3, 0)
            return text(2, number(1, ts) + number(2, 1) + text(235, task))

        def free(ts, pid):
            return text(2, number(1, ts) + number(2, pid)
                        + text(71, text(1, b"child") + number(2, pid)))

        events = b"".join(fork(10 * i, 500) + free(10 * i + 5, 500) for i in range(1, 8))
        events += fork(200, 2**64 - 1) + fork(210, 2**32 + 7) + fork(220, 0)
        self.convert(text(1, number(10, 1) + text(1, number(1, 0) + events)))
        self.assertEqual(self.query("SELECT count(*) FROM process WHERE pid = 500"), [(7,)])
        self.assertEqual(self.query(
            "SELECT count(*) FROM process WHERE pid NOT BETWEEN 0 AND 4294967295"), [(0,)])
        self.assertEqual(self.query("SELECT pid FROM process WHERE upid > 7 ORDER BY 1"),
                         [(7,), (4294967295,)])

    def test_processes_that_turn_up_after_their_values(self):
        """Values of several threads of a process go to one track, whichever value came first."""
        def rss(ts, pid, size):
            return text(2, number(1, ts) + number(2, pid)
                        + text(313, number(1, 0) + number(2, size) + number(3, 1)))

        values = rss(10, 50, 4096) + rss(20, 51, 8192) + rss(30, 50, 12288) + rss(40, 60, 4096)
        tree = text(1, number(1, 50)
                    + text(3, b"/late")) + text(2, number(1, 51) + text(2, b"t") + number(3, 50))
        ftrace = text(1, number(10, 1) + text(1, number(1, 0) + values))
        self.convert(ftrace + packet(2, tree, ts=2000))
        self.assertEqual(self.query(
            "SELECT t.name, pid, c.ts, value FROM counter c JOIN process_counter_track t ON "
            "t.id = track_id JOIN process USING (upid) ORDER BY c.ts"),
                         [("mem.rss.file", 50, 10, 4096), ("mem.rss.file", 50, 20, 8192),
                          ("mem.rss.file", 50, 30, 12288)])
        self.assertEqual(
            self.query("SELECT count(*) FROM counter c LEFT JOIN track t ON t.id = track_id "
                       "WHERE t.id IS NULL"), [(0,)])
        self.assertEqual(self.query(
            "SELECT upid, count(*) FROM process_counter_track WHERE name = 'mem.rss.file' "
            "GROUP BY 1 HAVING count(*) > 1"), [])

    def test_counters_beyond_64_bits(self):
        """The value is kept; the thread's time is the nearest number of 64 bits."""
        counter = packet(60, number(1, 2) + text(2, b"thread_time") + text(8, b""))
        thread = packet(60, number(1, 3) + text(4, number(1, 5) + number(2, 6)))
        event = number(9, 3) + number(11, 3) + text(23, b"e") + number(45, 2)
        extra = varint(46 << 3 | FIXED64)
        self.convert(
            counter + thread + b"".join(packet(11, event + extra + struct.pack("<d", value), ts=ts)
                                        for ts, value in ((2000, 1e30), (2001, -1e30))))
        self.assertEqual(self.query("SELECT value FROM counter ORDER BY ts"), [(1e30,), (-1e30,)])
        self.assertEqual(self.query("SELECT thread_ts FROM slice ORDER BY ts"),
                         [(2**63 - 1,), (-2**63,)])

    def test_packets_that_inflate_without_end(self):
        """Neither one packet nor many may fill the disk; packets after them are read."""
        bomb = zlib.compress(bytes(80 << 20), 9)
        said = self.convert(text(1, text(50, bomb)) * 30 + self.track(1, 0, b"t")
                            + self.instant(1, b"behind"), code=1)
        self.assertIn("cannot be inflated to their end", said)
        self.assertEqual(self.query("SELECT name FROM slice"), [("behind",)])

    def test_clocks_that_jump(self):
        """Packets whose clock has jumped back so that they have no place are counted. They get no
        invented time."""
        def snapshot(boot, mono):
            return text(1, number(10, 1) + text(6, text(1, number(1, 6) + number(2, boot)) +
                                                text(1, number(1, 3) + number(2, mono))))

        def event(mono, name):
            return text(1, number(8, mono) + number(58, 3) + number(10, 1) +
                        text(11, number(9, 3) + number(11, 1) + text(23, name)))

        self.convert(snapshot(1000, 100) + self.track(1, 0, b"t") + event(150, b"a")
                     + snapshot(2000, 50) +
                     event(60, b"b") + snapshot(2**63 - 1, 2**63 - 1) + event(2**63 - 1, b"c") +
                     snapshot(2**64 - 1, 0) + event(70, b"d"))
        self.assertEqual(self.query("SELECT ts, name FROM slice"), [(1050, "a")])
        self.assertEqual(self.stat("clock_sync_failure_no_path"), 3)
        self.assertEqual(self.stat("invalid_clock_snapshots"), 1)


if __name__ == "__main__":
    unittest.main()
